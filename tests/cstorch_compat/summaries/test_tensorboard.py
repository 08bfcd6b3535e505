"""TensorBoard's own reader finds what our writers wrote."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.summaries.summary import EventWriter, SummaryReader
from lazytensor.functional.creation import tensor

public = get_mirror("torch.utils.tensorboard")


reader = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="the extra `test` has TensorBoard"
)
FLOATS = st.floats(allow_nan=False, width=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    def make():
        return tmp_path_factory.mktemp("run")

    return make


def read(path):
    return reader.EventAccumulator(str(path), size_guidance={"histograms": 0, "scalars": 0, "tensors": 0}).Reload()


@settings(max_examples=15, deadline=None)
@given(
    logged=st.lists(
        st.tuples(st.sampled_from(["loss", "a/b", "é"]), FLOATS, st.integers(-(2**63), 2**63 - 1)), max_size=8
    )
)
def test_scalars_come_back_from_both_readers(folder, logged):
    path = folder()
    with EventWriter(path) as writer:
        for i, (tag, value, step) in enumerate(logged):
            writer.add_scalar(tag, value, step, walltime=1000.5 + i)
    theirs, ours = read(path), SummaryReader(path)
    assert set(theirs.Tags()["scalars"]) == ours.scalar_names() == {tag for tag, *_ in logged}
    for tag in ours.scalar_names():
        expected = [(1000.5 + i, step, value) for i, (name, value, step) in enumerate(logged) if name == tag]
        assert [(e.wall_time, e.step, e.value) for e in ours.read_scalar(tag)] == expected
        assert [(e.wall_time, e.step, e.value) for e in theirs.Scalars(tag)] == expected


@settings(max_examples=15, deadline=None)
@given(arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32)))
def test_a_histogram_counts_every_value_in_its_bin(folder, values):
    path = folder()
    with EventWriter(path) as writer:
        writer.add_histogram("weights", tensor(values), 7)
    (event,) = read(path).Histograms("weights")
    found, exact = event.histogram_value, values.astype(np.float64)
    assert event.step == 7
    assert (found.min, found.max, found.num) == (exact.min(), exact.max(), exact.size)
    assert found.sum == pytest.approx(exact.sum())
    assert found.sum_squares == pytest.approx((exact * exact).sum())
    limits, counts = np.array(found.bucket_limit), np.array(found.bucket)
    assert counts.sum() == exact.size
    # TensorBoard's own reader takes the space up to the first limit as the first bin.
    below = [np.count_nonzero(exact < limit) for limit in limits]
    assert np.all(np.abs(np.cumsum(counts) - below) <= np.count_nonzero(np.isin(exact, limits)))


def test_bins_of_one_s_own(folder):
    path = folder()
    with EventWriter(path) as writer:
        writer.add_histogram("w", [0.0, 1.0, 1.0, 2.0], 1, bins=2)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("w", [], 1)
        for outside in (float("nan"), float("inf"), 1e30):
            with pytest.raises(ValueError, match="histogram 'w' is empty"):
                writer.add_histogram("w", [outside], 1)
        with pytest.raises(NotImplementedError, match="max_bins"):
            writer.add_histogram("w", [1.0], 1, max_bins=3)
    (event,) = read(path).Histograms("w")
    assert (list(event.histogram_value.bucket_limit)[-2:], sum(event.histogram_value.bucket)) == ([1.0, 2.0], 4)


def test_texts_and_groups_of_scalars(folder):
    path = folder()
    with public.SummaryWriter(str(path), comment="x") as writer:
        writer.add_text("note", "hello", 3)
        writer.add_scalars("losses", {"train": 1.0, "eval": 2.0}, 4)
    (event,) = read(path).Tensors("note/text_summary")
    assert (event.step, list(event.tensor_proto.string_val)) == (3, [b"hello"])
    assert [e.value for e in read(path / "losses_eval").Scalars("losses")] == [2.0]
    ours = SummaryReader(path)
    assert ours.text_summary_names() == ["note"]
    assert [(e.step, e.text) for e in ours.read_text_summary("note")] == [(3, "hello")]
    assert sorted(e.value for e in ours.read_scalar("losses")) == [1.0, 2.0]


def test_scalars_are_float32(folder):
    path = folder()
    with EventWriter(path) as writer:
        writer.add_scalar("x", 0.1, 1)
    assert read(path).Scalars("x")[0].value == struct.unpack("f", struct.pack("f", 0.1))[0]


PICTURE = np.arange(24, dtype=np.float32).reshape(3, 2, 4) / 24


def pixels(encoded):
    """A picture as TensorBoard shows it: read by a library that did not write it."""
    return np.asarray(pytest.importorskip("PIL.Image").open(io.BytesIO(encoded)))


def images(path, tag):
    accumulator = reader.EventAccumulator(str(path), size_guidance={"images": 0}).Reload()
    return [(e.step, e.width, e.height, pixels(e.encoded_image_string)) for e in accumulator.Images(tag)]


def test_pictures_come_back_in_every_order_of_dimensions(folder):
    path = folder()
    wanted = (PICTURE.transpose(1, 2, 0).astype(np.float64) * 255).astype(np.uint8)
    with public.SummaryWriter(str(path)) as writer:
        writer.add_image("p", tensor(PICTURE), 1)
        writer.add_image("p", PICTURE.transpose(1, 2, 0), 2, dataformats="HWC")
        writer.add_image("p", wanted, 3, dataformats="hwc")
        writer.add_image("grey", PICTURE[0], 1, dataformats="HW")
        with pytest.raises(ValueError, match="dataformats='CHW' does not match an array of 2 dimensions"):
            writer.add_image("p", PICTURE[0], 1)
        with pytest.raises(ValueError, match="not 5"):
            writer.add_image("p", np.zeros((5, 2, 2)), 1)
    shown = images(path, "p")
    assert [(step, width, height) for step, width, height, _ in shown] == [(1, 4, 2), (2, 4, 2), (3, 4, 2)]
    assert all(np.array_equal(p, wanted) for *_, p in shown)
    ((_, _, _, grey),) = images(path, "grey")
    assert np.array_equal(grey, np.repeat(wanted[..., :1], 3, 2))


def test_several_pictures_are_a_grid_of_eight_columns(folder):
    path = folder()
    with public.SummaryWriter(str(path)) as writer:
        writer.add_images("p", tensor(np.stack([PICTURE] * 7 + [1 - PICTURE] * 3)), 5)
    ((step, width, height, grid),) = images(path, "p")
    assert (step, width, height) == (5, 8 * 4, 2 * 2)
    assert np.array_equal(grid[:2, :4], grid[:2, 24:28]) and not np.array_equal(grid[:2, :4], grid[:2, 28:])
    assert np.array_equal(grid[2:, :4], grid[:2, 28:]) and not grid[2:, 8:].any()


@pytest.mark.slow
def test_a_figure_is_a_picture_of_it(folder):
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(2, 1), dpi=50)
    figure.add_subplot().plot([0, 1])
    path = folder()
    with public.SummaryWriter(str(path)) as writer:
        writer.add_figure("f", figure, 3)
    ((step, width, height, shown),) = images(path, "f")
    assert (step, width, height) == (3, 100, 50) and shown.min() < 100 < shown.max()


def test_a_curve_of_precision_and_recall_counts_each_threshold(folder):
    labels, predictions = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.4, 0.35, 0.8, 1.0])
    path = folder()
    with public.SummaryWriter(str(path)) as writer:
        writer.add_pr_curve("curve", tensor(labels), tensor(predictions), 2, num_thresholds=11)
    (event,) = read(path).Tensors("curve")
    proto = event.tensor_proto
    assert [d.size for d in proto.tensor_shape.dim] == [6, 11] and event.step == 2
    true, false, rest_false, rest_true, precision, recall = np.array(proto.float_val).reshape(6, 11)
    for k, threshold in enumerate(np.arange(11) / 10):
        reached = np.floor(predictions * 10) / 10 >= threshold
        assert (true[k], false[k]) == (labels[reached].sum(), (1 - labels)[reached].sum())
    assert np.all(true + rest_true == 3) and np.all(false + rest_false == 2)
    np.testing.assert_allclose(precision, true / np.maximum(true + false, 1e-7), rtol=1e-6)
    np.testing.assert_allclose(recall, true / 3, rtol=1e-6)
    metadata = read(path).SummaryMetadata("curve").plugin_data
    curves = pytest.importorskip("tensorboard.plugins.pr_curve.plugin_data_pb2")
    assert metadata.plugin_name == "pr_curves"
    assert curves.PrCurvePluginData.FromString(metadata.content).num_thresholds == 11


def test_hyperparameters_are_those_that_the_plug_in_reads(folder):
    data = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    path = folder()
    values = {"lr": 0.1, "layers": 3, "name": "a", "flag": True, "t": tensor(np.float32(2.0))}
    with public.SummaryWriter(str(path)) as writer:
        writer.add_hparams(values, {"loss": 0.5}, {"lr": [0.1, 0.2]}, run_name="one", global_step=4)
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams([], {})
        with pytest.raises(ValueError, match="value should be one of int, float, str, bool"):
            writer.add_hparams({"x": object()}, {})
    run = read(path / "one")

    def content(name):
        metadata = run.SummaryMetadata(f"_hparams_/{name}").plugin_data
        assert metadata.plugin_name == "hparams"
        return data.HParamsPluginData.FromString(metadata.content)

    experiment = content("experiment").experiment
    assert [(h.name, h.type) for h in experiment.hparam_infos] == [
        ("lr", 3),
        ("layers", 3),
        ("name", 1),
        ("flag", 2),
        ("t", 3),
    ]
    assert list(experiment.hparam_infos[0].domain_discrete) == [0.1, 0.2]
    assert [m.name.tag for m in experiment.metric_infos] == ["loss"]
    session = content("session_start_info").session_start_info.hparams
    assert session["lr"].number_value == 0.1 and session["name"].string_value == "a" and session["flag"].bool_value
    assert content("session_end_info").session_end_info.status == 1
    assert [(e.step, e.value) for e in run.Scalars("loss")] == [(4, 0.5)]


def test_a_graph_is_folded_by_modules(folder):
    nn = get_mirror("torch.nn")
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    path = folder()
    with public.SummaryWriter(str(path)) as writer:
        writer.add_graph(model, tensor(np.ones((5, 4), np.float32)))
    nodes = {n.name: n for n in read(path).Graph().node}
    assert all(i in nodes for n in nodes.values() for i in n.input)
    relu = next(n for n in nodes.values() if n.op == "relu")
    assert [d.size for d in relu.attr["_output_shapes"].list.shape[0].dim] == [5, 3]
    assert {"Sequential/0/weight", "Sequential/2/bias"} <= set(nodes)
    assert relu.name.startswith("Sequential/1/") and not model[1]._scope


def test_points_are_written_where_the_projector_looks(folder):
    path = folder()
    points = np.arange(12.0).reshape(4, 3)
    with public.SummaryWriter(str(path)) as writer:
        writer.add_embedding(tensor(points), ["a", "b\tc", "d", "e"], np.stack([PICTURE] * 4), 7, "mine")
        writer.add_embedding(points, [("x", 1)] * 4, tag="two", metadata_header=["name", "number"])
        with pytest.raises(ValueError, match="labels should equal"):
            writer.add_embedding(points, ["a"])
    projector = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    config = text_format.Parse((path / "projector_config.pbtxt").read_text(), projector.ProjectorConfig())
    first, second = config.embeddings
    assert first.tensor_name == "mine:00007" and list(first.sprite.single_image_dim) == [4, 2]
    assert np.array_equal(np.loadtxt(path / first.tensor_path), points)
    assert (path / first.metadata_path).read_text().splitlines() == ["a", "b c", "d", "e"]
    assert pixels((path / first.sprite.image_path).read_bytes()).shape == (4, 8, 3)
    assert (path / second.metadata_path).read_text().splitlines()[:2] == ["name\tnumber", "x\t1"]
