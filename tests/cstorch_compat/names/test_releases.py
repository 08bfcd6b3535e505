"""The releases of the API: which names a script sees, and what it is told of the others."""

import importlib
import itertools
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.names import manifest, mirror_modules, releases, shim
from cstorch_compat.names.releases import LATEST, RELEASE_ROWS, RELEASES, ReleaseRange
from lazytensor.errors import NameMissing

PATHS = sorted({row.path for row in RELEASE_ROWS})
MISSING = {"mesh", "profiler", "nn.SelectiveGrad", "experimental.Compression", "experimental.listener"}
"""Names of the table that are not written yet; `manifest` says so of them."""


@pytest.fixture
def installed():
    """Install the shim for a release; what the test imported through it is forgotten afterwards."""
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ("torch", "torchvision")}
    yield shim.install
    shim.uninstall()
    sys.modules.update(before)


def cstorch(release: str):
    """The root of the package as that release spells it."""
    number = releases.parse_release(release)
    name = "cerebras.pytorch" if number >= (2, 2) else "cerebras_pytorch"
    return importlib.import_module(name if number >= (2, 0) else "cerebras_pytorch.experimental")


def looked_up(root, path: str):
    for part in path.split("."):
        root = getattr(root, part)
    return root


@given(path=st.sampled_from(PATHS), release=st.sampled_from(RELEASES))
def test_a_name_is_either_in_a_release_or_absent_with_a_way_out(path, release):
    span = ReleaseRange(release, release)
    row, absent = releases.find_row(path, span), releases.explain_absence(path, span)
    assert (row is None) == (absent is not None)
    if absent is not None:
        assert release in absent[0] and absent[1]


@given(path=st.sampled_from(PATHS), ends=st.lists(st.sampled_from(range(len(RELEASES))), min_size=2, max_size=2))
def test_of_several_releases_the_newest_that_has_a_name_decides(path, ends):
    span = ReleaseRange(*(RELEASES[i] for i in sorted(ends)))
    has = [r for r in RELEASES[min(ends) : max(ends) + 1] if releases.find_row(path, ReleaseRange(r, r)) is not None]
    newest = releases.find_row(path, ReleaseRange(has[-1], has[-1])) if has else None
    assert releases.find_row(path, span) == newest


@given(path=st.sampled_from(PATHS))
def test_the_rows_of_a_name_follow_each_other(path):
    found = releases.find_rows(path)
    for earlier, later in itertools.pairwise(found):
        assert RELEASES.index(earlier.until) + 1 == RELEASES.index(later.since)


@pytest.mark.parametrize("row", [r for r in RELEASE_ROWS if r.target], ids=lambda r: f"{r.path}-{r.since}")
def test_every_row_stands_for_something(row):
    assert mirror_modules.resolve_target(row.target) is not None


@pytest.mark.parametrize("release", ["1.8", "1.9", "2.0", "2.1", "2.2", "2.3", "2.4", "2.10"])
def test_every_name_of_a_release_resolves_or_says_why_not(release, installed):
    installed(release)
    root = cstorch(release)
    for path in PATHS:
        try:
            looked_up(root, path)
        except AttributeError as e:
            if (
                releases.find_row(path, ReleaseRange(release, release)) is not None
                and path.partition(".")[0] != "sparse"
            ):
                assert path in MISSING and "known but missing" in str(e)
            assert isinstance(e.__cause__, NameMissing) and e.__cause__.hint and e.__cause__.where


@pytest.mark.parametrize("row", releases.SPELLINGS, ids=lambda s: f"{s.name}-{s.span}")
def test_a_spelling_is_found_in_its_releases_and_in_no_other(row, installed):
    for release in (row.span.since, row.span.until):
        installed(release)
        assert importlib.import_module(row.name)
    for release in RELEASES:
        if not any(s.span.meets(ReleaseRange(release, release)) for s in releases.SPELLINGS if s.name == row.name):
            installed(release)
            with pytest.raises(ModuleNotFoundError, match=f"--api {row.span.until}"):
                importlib.import_module(row.name)


def test_without_a_release_each_spelling_means_its_usual_one(installed):
    installed()
    assert cstorch("2.10").__version__ == f"{LATEST}.0"
    assert cstorch("2.1").__version__ == "2.1.0"
    experimental = cstorch("1.8")
    assert {"configure", "summarize_scalar", "compile_step", "backend"} <= set(dir(experimental))
    assert "trace" not in dir(experimental)


def test_classes_are_the_same_under_every_spelling(installed):
    installed()
    assert cstorch("2.1").optim.SGD is cstorch("2.10").optim.SGD is cstorch("1.9").optim.SGD
    names: dict = {}
    exec("from cerebras_pytorch.metrics import *", names)
    assert names["AccuracyMetric"] is cstorch("2.10").metrics.AccuracyMetric and "MeanMetric" not in names


def test_an_unknown_release_is_refused():
    with pytest.raises(ValueError, match=r"no release .3\.0."):
        shim.install("3.0")


@pytest.mark.process
def test_the_latest_release_says_of_a_removed_name_what_took_its_place(script_process):
    done = script_process(
        """
        for name in ("summarize_scalar", "utils.CSConfig", "optim.configure_optimizer", "utils.tensorboard"):
            try:
                eval("cstorch." + name)
            except AttributeError as e:
                print(name, "SummaryWriter" in str(e), "ClusterConfig" in str(e), "from its class" in str(e),
                      "must be imported" in str(e))
        """
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[1:].index("True") for line in done.stdout.splitlines()] == [0, 1, 2, 3]


def test_the_release_is_chosen_on_the_command_line(tmp_path, script):
    body = "import cerebras_pytorch\nprint(hasattr(cerebras_pytorch, 'Session'))\n"
    for release, expected in (("1.8", "True"), ("2.0", "False")):
        done = script(body, options=("--api", release), preamble="")
        assert done.stdout.strip() == expected, done.stderr


def test_known_names_are_those_of_the_latest_release():
    assert all(manifest.find_missing_reason(f"cerebras.pytorch.{path}") for path in MISSING)


def test_a_variable_that_a_closure_assigns_by_mistake_is_named(script):
    done = script("total = 0\ndef count(x):\n    total += x\ncount(1)\n", preamble="")
    assert done.returncode == 1
    assert "script.py:3: count assigns 'total'" in done.stderr and "global total" in done.stderr


OLDER = """
import warnings
import torch
warnings.simplefilter("default")
import cerebras_pytorch as cstorch
from cerebras_pytorch.utils.tensorboard import SummaryReader, SummaryWriter
backend = cstorch.backend("CSX", max_checkpoints=2, drop_data=False)
backend.device.config.lazy_initialization = False
model = torch.nn.Linear(3, 2)
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.configure_optimizer("sgd", model.parameters(), lr=0.1, beta1=0.9, loss_scale=1)
writer = SummaryWriter("events")
config = cstorch.utils.CSConfig(num_csx=1, precision_opt_level=2)
loader = cstorch.utils.data.DataLoader(lambda: [(torch.ones(4, 3), torch.arange(4) % 2)])

@cstorch.trace
def step(batch):
    loss = torch.nn.functional.cross_entropy(compiled(batch[0]), batch[1])
    cstorch.amp.optimizer_step(loss, optimizer, None)
    cstorch.summarize_scalar("inside", loss * 2)
    return loss

executor = cstorch.utils.data.DataExecutor(loader, num_steps=3, cs_config=config, writer=writer)
for batch in executor:
    cstorch.summarize_scalar("loop", step(batch))
writer.close()
reader = SummaryReader("events")
import json
print(json.dumps({n: [[e.step, e.value] for e in reader.read_scalar(n)] for n in ("inside", "loop")}))
"""


def test_summaries_of_older_releases_are_written_by_the_writer_of_the_executor(script):
    done = script(OLDER, preamble="")
    assert done.returncode == 0, done.stderr
    assert "SGD has no settings beta1, loss_scale" in done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert [s for s, _ in found["loop"]] == [1, 2, 3]
    assert [v for _, v in found["inside"]] == pytest.approx([2 * v for _, v in found["loop"]], rel=1e-3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("cstorch.utils.data.DataExecutor(loader)", "RuntimeError", "num_steps >= 1, but got None"),
        ("cstorch.utils.data.DataExecutor(loader, 1, cs_config=1)", "TypeError", "CSConfig"),
        ("cstorch.utils.data.DataExecutor(loader, 1, writer=1)", "TypeError", "SummaryWriter"),
        ("cstorch.utils.CSConfig(num_csx=-1)", "ValueError", "non-negative"),
        ("cstorch.backend('CPU', foo=1)", "TypeError", "foo"),
    ],
)
def test_older_calls_are_checked(script, call, error, words):
    done = script(
        f"""
        import torch
        import cerebras_pytorch as cstorch
        loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(2)])
        if "backend" not in {call!r}:
            cstorch.backend("CPU")
        try:
            {call}
        except {error} as e:
            print(e)
        """,
        preamble="",
    )
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_an_optimizer_of_release_1_8_also_names_its_sparse_state(script):
    done = script(
        """
        import torch
        import cerebras_pytorch.experimental as cstorch
        cstorch.configure()
        cstorch.compile(torch.nn.Linear(1, 1), backend="WSE_WS")

        class Mine(cstorch.optim.Optimizer):
            def preinitialize(self): ...
            def step(self, closure=None): ...

        class Whole(Mine):
            def state_names_to_sparsify(self): return []

        params = [torch.nn.Parameter(torch.ones(2))]
        whole, sgd = Whole(params, {}), cstorch.optim.SGD(params, lr=0.1)
        print([isinstance(o, cstorch.optim.Optimizer) for o in (whole, sgd, torch.optim.SGD(params, lr=0.1))])
        Mine(params, {})
        """,
        options=("--api", "1.8"),
        preamble="",
    )
    assert done.stdout.splitlines()[0] == "[True, True, False]"
    assert "Can't instantiate abstract class Mine with abstract method state_names_to_sparsify" in done.stderr
