"""Training with sparsity as laws, on both backends: zeros stay, levels follow schedules, a resumed run is the same."""

import itertools
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.amp.grad_scaler import GradScaler
from cstorch_compat.cerebras.pytorch.optim import optimizers
from cstorch_compat.cerebras.pytorch.sparse.algorithm import Static
from cstorch_compat.cerebras.pytorch.sparse.dynamic import GMP, SET, RigL
from cstorch_compat.cerebras.pytorch.sparse.group import Group
from cstorch_compat.files import checkpoint
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import compile_model, process
from lazytensor import config, nn, random
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import tensor
from tests.conftest import lazywafer
from tests.cstorch_compat.cerebras.pytorch.sparse.sparse_runs import Training, batches

pytestmark = pytest.mark.slow

amp = get_mirror("cerebras.pytorch.amp")


SCRIPT = pathlib.Path(__file__).parents[4] / "scripts" / "sparse_mlp.py"

OPTIMIZERS = "ASGD SGD Adadelta Adafactor Adagrad Adam AdamW Adamax Lamb Lion NAdam RAdam RMSprop Rprop".split()
RISING = {"type": "linear", "init": 0.1, "slope": 0.05}
EVERY_OTHER = {"freq": 2}
ALGORITHMS = {
    "static": lambda: Static(0.5),
    "gmp": lambda: GMP(sparsity=RISING, update=EVERY_OTHER, init_method="topk"),
    "gmp_list": lambda: GMP(sparsity=[0.2, 0.5, 0.7], update={"freq": 2, "start": 1}),
    "set": lambda: SET(sparsity=0.5, update=EVERY_OTHER),
    "set_drops": lambda: SET(sparsity=0.5, update=EVERY_OTHER, drop_fraction=[0.5, 0.1]),
    "rigl": lambda: RigL(sparsity=0.5, update=EVERY_OTHER),
    "rigl_groups": lambda: RigL(sparsity=0.5, update=EVERY_OTHER, balance_out_groups=2),
    "group": lambda: Group({"*weight": SET(sparsity=0.5, update=EVERY_OTHER), "*bias": Static(0.25)}),
}


@pytest.fixture(autouse=True, scope="module")
def interpreted():
    """Every training is a graph of its own, and compiling it would take longer than its few steps."""
    with config.override(jit=False):
        yield


@pytest.fixture
def new_backend(monkeypatch, tmp_path):
    """Make a backend, as a new process would."""
    made = iter(range(99))

    def make(kind="CPU"):
        monkeypatch.setattr(process.RUN, "backend", None)
        random.manual_seed(7)
        folder = {"artifact_dir": tmp_path / str(next(made))} if kind == "CSX" else {}
        return process.make_backend(kind, **folder)

    return make


def assert_zero_where_masked(training):
    for masks, weights in zip(training.masks, training.weights, strict=True):
        assert all(not weights[n.removesuffix("_mask")][~mask].any() for n, mask in masks.items())


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_masked_weight_stays_zero_through_any_optimizer(kind, new_backend):
    new_backend()
    training = Training(
        RigL(sparsity=0.5, update=EVERY_OTHER), optimizer=lambda params: getattr(optimizers, kind)(params, lr=0.01)
    ).fit(batches(5))
    assert_zero_where_masked(training)
    for p, name in ((training.model[0].weight, "0.weight"), (training.model[0].bias, "0.bias")):
        for value in training.optimizer.state[p].values():
            if value.shape == p.shape:
                assert not value.numpy()[~training.masks[-1][f"{name}_mask"]].any()


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, "CPU") for name in ALGORITHMS),
        *((name, "CSX") for name in ("gmp_list", "group")),
    ],
)
def test_masks_do_what_the_algorithm_says(name, backend, new_backend):
    new_backend(backend)
    training = Training(ALGORITHMS[name]()).fit(batches(8))
    assert_zero_where_masked(training)
    kept = [int(m["0.weight_mask"].sum()) for m in training.masks]
    same = [np.array_equal(a["0.weight_mask"], b["0.weight_mask"]) for a, b in itertools.pairwise(training.masks)]
    if name == "static":
        assert kept == [24] * 8 and all(same)
    elif name == "gmp":
        levels = [0.1 if step < 2 else 0.1 + 0.05 * (step - step % 2) for step in range(1, 9)]
        assert all(abs(k - (1 - level) * 48) <= 1 for k, level in zip(kept, levels, strict=True))
    elif name == "gmp_list":
        assert kept == [38, 38, 24, 24, 14, 14, 38, 38]
    else:
        assert kept == [24] * 8
        assert all(same[step - 2] for step in (3, 5, 7)) and not all(same)
    if name == "rigl_groups":
        assert all(int(m["0.weight_mask"][:4].sum()) == 12 for m in training.masks)


@given(level=st.floats(0, 0.9), fraction=st.floats(0, 1), freq=st.integers(1, 3), start=st.integers(0, 2))
@settings(deadline=None, max_examples=8)
def test_set_keeps_the_level_whatever_it_drops(level, fraction, freq, start):
    before, process.RUN.backend = process.RUN.backend, None
    try:
        process.make_backend("CPU")
        training = Training(
            SET(sparsity=level, drop_fraction=fraction, update={"freq": freq, "start": start}, init_method="topk")
        ).fit(batches(4))
    finally:
        process.RUN.backend = before
    wanted = int((np.float32(1) - np.float32(level)) * np.float32(48))
    left = int((np.float32(1) - np.float32(fraction)) * np.float32(48))
    for step, masks in enumerate(training.masks, 1):
        updates = len(range(start, step + 1, freq)) - (start == 0)
        dense = max(wanted, left) if updates == 1 else None
        kept = int(masks["0.weight_mask"].sum())
        assert kept == (wanted if start == 0 else 48 if updates == 0 else dense or kept)
        assert kept >= wanted


@pytest.mark.parametrize(
    ("kind", "backend"),
    [("GMP", "CPU"), ("SET", "CPU"), ("RigL", "CPU"), ("RigL", "CSX")],
)
def test_layers_without_a_bias_can_be_sparse(kind, backend, new_backend):
    new_backend(backend)
    made = {"GMP": lambda: GMP(sparsity=RISING), "SET": lambda: SET(sparsity=0.5), "RigL": lambda: RigL(sparsity=0.5)}
    model = nn.Sequential(nn.Linear(6, 4, bias=False), nn.Linear(4, 8))
    training = Training(made[kind](), model).fit(batches(3))
    assert_zero_where_masked(training)
    assert set(training.masks[0]) == {"0.weight_mask", "1.weight_mask", "1.bias_mask"}


@pytest.mark.parametrize("name", ["gmp", "rigl_groups", "rigl"])
def test_both_backends_compute_the_same_numbers(name, new_backend):
    found = {}
    for kind in ("CPU", "CSX"):
        new_backend(kind)
        found[kind] = Training(ALGORITHMS[name](), is_single=True).fit(batches(6))
    for what, are_same in (
        ("masks", np.array_equal),
        ("weights", lambda a, b: np.allclose(a, b, rtol=1e-6, atol=1e-7)),
    ):
        for a, b in zip(getattr(found["CPU"], what), getattr(found["CSX"], what), strict=True):
            assert all(are_same(a[k], b[k]) for k in a)


@pytest.mark.parametrize("name", ["gmp_list", "set_drops", "rigl", "group"])
def test_a_resumed_run_continues_bit_for_bit(name, new_backend, tmp_path):
    data, path = batches(6), tmp_path / "half.mdl"

    def saved(training):
        parts = (training.model, training.optimizer, training.sparsity)
        return dict(zip(("model", "optimizer", "sparsity"), (p.state_dict() for p in parts), strict=True))

    new_backend()
    first = Training(without_chance(name)).fit(data[:3])
    checkpoint.save(saved(first), path)
    first.fit(data[3:])
    new_backend()
    second = Training(without_chance(name))
    state = checkpoint.load(path)
    second.model.load_state_dict(state["model"])
    second.optimizer.load_state_dict(state["optimizer"])
    second.sparsity.load_state_dict(state["sparsity"])
    second.fit(data[3:])
    for a, b in zip(first.weights[3:], second.weights, strict=True):
        assert all(np.array_equal(a[k], b[k]) for k in a)
    for a, b in zip(first.masks[3:], second.masks, strict=True):
        assert all(np.array_equal(a[k], b[k]) for k in a)


def without_chance(name):
    """The algorithm; SET would draw other places in a new process, whose counter of draws starts again."""
    if name == "group":
        return Group({"*weight": RigL(sparsity=0.5, update=EVERY_OTHER), "*bias": Static(0.25)})
    if name == "set_drops":
        return RigL(sparsity=0.5, update=EVERY_OTHER, drop_fraction=[0.5, 0.1])
    return ALGORITHMS[name]()


def test_a_step_that_overflows_changes_neither_masks_nor_counters(new_backend):
    new_backend("CSX")
    scaler = GradScaler("dynamic", init_scale=2.0**15)
    sparsity = GMP(sparsity=[0.2, 0.5, 0.7])
    data = batches(4)
    data[1] = (data[1][0] * 1e6, data[1][1])
    training = Training(sparsity, take_step=lambda o, loss: amp.optimizer_step(loss, o, scaler)).fit(data)
    assert all(np.array_equal(training.masks[0][k], training.masks[1][k]) for k in training.masks[0])
    assert all(np.array_equal(training.weights[0][k], training.weights[1][k]) for k in training.weights[0])
    assert int(sparsity.step) == 3
    assert [int(m["0.weight_mask"].sum()) for m in training.masks] == [24, 24, 14, 38]


def test_weight_decay_does_not_wake_masked_weights(new_backend):
    new_backend("CSX")
    training = Training(Static(0.5), optimizer=lambda params: optimizers.AdamW(params, lr=0.1, weight_decay=0.5)).fit(
        batches(3)
    )
    assert_zero_where_masked(training)


def test_gradients_of_several_passes_add_up_for_regrowth(new_backend):
    new_backend()
    x, y = batches(1)[0]

    def dense_gradients(passes):
        sparsity = RigL(sparsity=0.5)
        model = nn.Linear(6, 8)
        compile_model.compile_model(model)
        model.apply(sparsity)
        sparsity.initialize()
        for _ in range(passes):
            ((model(x) - y) ** 2).sum().backward()
        return sparsity.grow_score(model.weight, model.weight_mask).numpy()

    random.manual_seed(1)
    once = dense_gradients(1)
    random.manual_seed(1)
    np.testing.assert_allclose(dense_gradients(2), 2 * once, rtol=1e-5)
    assert tensor(once).shape == (8, 6)


@pytest.mark.parametrize(
    ("sparsity", "extent"),
    [
        (lambda: Static(0.5), (0.5, 0.5, 0.5)),
        (lambda: GMP(sparsity=[0.25, 0.75, 0.5]), (0.75, 0.25, 0.5)),
        (lambda: SET(sparsity=0.5, update={"freq": 2, "start": 1}), (0.5, 0.0, 0.5)),
    ],
)
def test_the_compiler_is_told_the_range_of_the_sparsity(sparsity, extent, new_backend):
    owner = new_backend("CSX")
    Training(sparsity()).fit(batches(1))
    (text,) = (path.read_text() for path in owner.artifact_dir.rglob("cirh.mlir"))
    said = "cs.max_sparsity = {:.6e} : f32, cs.min_sparsity = {:.6e} : f32, cs.sparsity = {:.6e} : f32".format(*extent)
    head = next(line for line in text.splitlines() if "func @graph" in line)
    arguments = {a.split('"state.')[1].split('"')[0]: a for a in head.split("%arg") if '"state.' in a}
    sparse = {name for name, a in arguments.items() if f"{{{said}, tf.aliasing_output" in a}
    assert sparse == {
        *("model.0.weight", "model.0.bias"),
        *(f"optimizer.state.{i}.momentum_buffer" for i in (0, 1)),
    }
    assert {n for n in arguments if n.endswith("_mask")} == {"model.0.weight_mask", "model.0.bias_mask"}


def test_the_sparse_script_learns_and_resumes_bit_for_bit(tmp_path):
    def printed(*args):
        with config.override(jit=False):
            done = lazywafer("run", str(SCRIPT), *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        words = [line.split() for line in done.stdout.splitlines() if line]
        assert {w[1] for w in words if w[0] == "kept"} == {"0.25"}
        return [float(w[1]) for w in words if w[0] == "loss"]

    losses = printed("--steps", "24", "--save", "a")
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])
    assert printed("--steps", "12", "--load", "a.12", "--save", "b") == losses[12:]
    assert sorted(p.name for p in tmp_path.glob("[ab].*")) == ["a.12", "a.18", "a.24", "a.6", "b.12", "b.6"]
    whole, resumed = (arrays(checkpoint.load(tmp_path / name)) for name in ("a.24", "b.12"))
    assert set(whole) == set(resumed)
    assert all(np.array_equal(whole[k], resumed[k]) for k in whole)


def arrays(state, path=""):
    """The tensors of a checkpoint by path."""
    if isinstance(state, Tensor):
        return {path: state.numpy()}
    entries = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list | tuple) else ()
    return {k: v for name, value in entries for k, v in arrays(value, f"{path}.{name}").items()}


RESUMED = """
import sys
backend = cstorch.backend(sys.argv[1])
torch.manual_seed(0)
model = cstorch.compile(MLP(), backend)
sparsity = cstorch.sparse.SET(sparsity=0.5, drop_fraction=0.5, update={"freq": 1})
model.apply(sparsity)
optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer.apply(sparsity)
if sys.argv[2] == "resume":
    saved = cstorch.load("half.mdl")
    model.load_state_dict(saved["model"]); optimizer.load_state_dict(saved["optimizer"])
    sparsity.load_state_dict(saved["sparsity"])
    torch.set_rng_state(saved["generator"])
@cstorch.trace
def step(batch):
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    return loss
@cstorch.checkpoint_closure
def save(path):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "sparsity": sparsity.state_dict()}
    cstorch.save({**state, "generator": torch.get_rng_state()}, path)
first, last = {"whole": (0, 4), "half": (0, 2), "resume": (2, 4)}[sys.argv[2]]
batches = list(loader(4))[first:last]
executor = cstorch.utils.data.DataExecutor(
    cstorch.utils.data.DataLoader(lambda: batches), num_steps=last - first, checkpoint_steps=last - first
)
for batch in executor:
    step(batch)
    save(f"{sys.argv[2]}.mdl")
"""


@pytest.mark.parametrize("backend", ["CPU", "CSX"])
def test_a_set_run_that_was_resumed_ends_as_the_one_that_was_not(script, tmp_path, backend):
    for part in ("whole", "half", "resume"):
        done = script(RESUMED, backend, part)
        assert done.returncode == 0, done.stderr
    done = script(
        """
        whole, resumed = cstorch.load("whole.mdl"), cstorch.load("resume.mdl")
        assert int(whole["sparsity"]["step"]) == 4
        for key, value in whole["model"].items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(resumed["model"][key])), key
        """
    )
    assert done.returncode == 0, done.stderr
