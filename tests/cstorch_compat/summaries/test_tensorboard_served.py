"""The real TensorBoard serves what our writers wrote: each plug-in is active and gives the data over HTTP."""

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror

pytest.importorskip("tensorboard.main", reason="needs the extra tensorboard: pip install tensorboard")
figures = pytest.importorskip("matplotlib.figure", reason="a figure needs the extra viz")
public, torch, nn = (get_mirror(name) for name in ("torch.utils.tensorboard", "torch", "torch.nn"))

pytestmark = [pytest.mark.slow, pytest.mark.process]
PICTURE = np.random.default_rng(0).random((3, 4, 5)).astype(np.float32)
POINTS = np.arange(8.0, dtype=np.float32).reshape(4, 2)
PNG = b"\x89PNG"


def write_all(folder):
    figure = figures.Figure()
    figure.add_subplot().plot([0, 1])
    with public.SummaryWriter(str(folder)) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_histogram("weights", np.arange(9.0), 1)
        writer.add_text("note", "hello", 1)
        writer.add_image("picture", PICTURE, 1)
        writer.add_images("pictures", np.stack([PICTURE] * 3), 1)
        writer.add_figure("figure", figure, 1)
        writer.add_graph(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.ones(5, 4))
        writer.add_hparams({"lr": 0.1}, {"best": 0.5}, run_name="one")
        writer.add_embedding(POINTS, list("abcd"), np.stack([PICTURE] * 4), 7, "mine")
        writer.add_pr_curve("curve", np.array([0, 1, 1, 0]), np.array([0.1, 0.9, 0.4, 0.6]), 2, num_thresholds=11)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """A function that asks a TensorBoard over a folder with every kind of record."""
    folder = tmp_path_factory.mktemp("board")
    write_all(folder)
    options = ("--logdir", str(folder), "--host", "127.0.0.1", "--port", "0", "--load_fast", "false")
    server = subprocess.Popen([sys.executable, "-m", "tensorboard.main", *options], stderr=subprocess.PIPE, text=True)
    try:
        # It says where it is when it answers.
        said = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in server.stderr)), None)
        assert said, "TensorBoard ended before it served"

        def answer(path, body=None, **query):
            data = None if body is None else json.dumps(body).encode()
            url = f"{said[0]}data/{path}?{urllib.parse.urlencode(query)}"
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.read()

        yield answer
    finally:
        server.terminate()
        server.communicate()


def test_every_plug_in_is_active(ask):
    listing = json.loads(ask("plugins_listing"))
    active = {name for name, plug_in in listing.items() if plug_in["enabled"]}
    # The projector looks for its files in the background, so that it may not know yet.
    assert active >= {"scalars", "images", "graphs", "histograms", "distributions", "text", "pr_curves", "hparams"}


def test_numbers_and_texts_are_served(ask):
    assert json.loads(ask("plugin/scalars/scalars", run=".", tag="loss"))[0][1:] == [1, 0.5]
    ((_, step, bins),) = json.loads(ask("plugin/histograms/histograms", run=".", tag="weights"))
    assert step == 1 and sum(count for _, _, count in bins) == 9
    assert "hello" in json.loads(ask("plugin/text/text", run=".", tag="note/text_summary"))[0]["text"]


@pytest.mark.parametrize("tag", ["picture", "pictures", "figure"])
def test_pictures_are_served(ask, tag):
    (entry,) = json.loads(ask("plugin/images/images", run=".", tag=tag, sample=0))
    query = dict(urllib.parse.parse_qsl(entry["query"]))
    assert ask("plugin/images/individualImage", **query).startswith(PNG)


def test_a_graph_is_served(ask):
    text = ask("plugin/graphs/graph", run=".").decode()
    assert '"Sequential/0/weight"' in text and 'op: "relu"' in text


def test_hyperparameters_are_served(ask):
    experiment = {"experimentName": "", "startIndex": 0, "sliceSize": 9, "colParams": []}
    statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
    answer = json.loads(ask("plugin/hparams/session_groups", {**experiment, "allowedStatuses": statuses}))
    (group,) = answer["sessionGroups"]
    assert group["hparams"] == {"lr": 0.1} and group["metricValues"][0]["value"] == 0.5


def test_points_are_served(ask):
    (info,) = json.loads(ask("plugin/projector/info", run="."))["embeddings"]
    assert info["tensorName"] == "mine:00007" and info["tensorShape"] == list(POINTS.shape)
    of = {"run": ".", "name": info["tensorName"]}
    served = np.frombuffer(ask("plugin/projector/tensor", **of), np.float32)
    np.testing.assert_array_equal(served.reshape(POINTS.shape), POINTS)
    assert ask("plugin/projector/metadata", **of).decode().split() == list("abcd")
    assert ask("plugin/projector/sprite_image", **of).startswith(PNG)


def test_a_curve_is_served(ask):
    ((curve,),) = json.loads(ask("plugin/pr_curves/pr_curves", run=".", tag="curve")).values()
    assert (curve["step"], curve["true_positives"][0], curve["false_positives"][0]) == (2, 2, 2)
