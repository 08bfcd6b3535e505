"""The sparsity optimizers of releases 2.0 and 2.1 against the algorithms that they drive."""

import numpy as np
import pytest

from cstorch_compat.cerebras.pytorch.amp.grad_scaler import GradScaler
from cstorch_compat.cerebras.pytorch.optim.optimizers import SGD
from cstorch_compat.cerebras.pytorch.sparse import optimizers as older
from cstorch_compat.cerebras.pytorch.sparse.algorithm import Static
from cstorch_compat.cerebras.pytorch.sparse.dynamic import GMP, SET, RigL
from cstorch_compat.cerebras.pytorch.sparse.group import Group
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import compile_model, process
from lazytensor import config, nn, random
from tests.cstorch_compat.cerebras.pytorch.sparse.sparse_runs import batches

amp = get_mirror("cerebras.pytorch.amp")
lr_scheduler = get_mirror("cerebras.pytorch.optim.lr_scheduler")


UPDATE = {"freq": 2}
RISING = {"type": "linear", "init": 0.2, "slope": 0.1}


@pytest.fixture(autouse=True)
def interpreted():
    with config.override(jit=False):
        yield


@pytest.fixture
def new_run(monkeypatch):
    def begin():
        monkeypatch.setattr(process.RUN, "backend", None)
        random.manual_seed(3)
        process.make_backend("CPU")
        model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 8))
        compiled = compile_model.compile_model(model)
        return model, compiled

    return begin


def trained(compiled, optimizer, steps=5, after=lambda: None):
    for begin in process.current_backend().before_loop:
        begin()
    for x, y in batches(steps):
        optimizer.zero_grad()
        ((compiled(x) - y) ** 2).mean().backward()
        optimizer.step()
        after()


def states(model):
    return {k: v.numpy() for k, v in model.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "algorithm", "settings"),
    [
        ("static", None, {"sparsity": 0.5}),
        ("GMP", GMP, {"sparsity": RISING, "update": UPDATE}),
        ("set", SET, {"sparsity": 0.5, "update": UPDATE}),
        ("rigl", RigL, {"sparsity": 0.5, "update": UPDATE, "balance_out_groups": 2}),
    ],
)
def test_a_wrapped_optimizer_trains_as_the_algorithm_does(kind, algorithm, settings, new_run):
    model, compiled = new_run()
    wrapped = older.configure_sparsity_wrapper(
        model, SGD(model.parameters(), lr=0.1, momentum=0.9), kind, init_method="topk", **settings
    )
    trained(compiled, wrapped)
    got = states(model)
    model, compiled = new_run()
    sparsity = Group({"*weight": (algorithm or Static)(init_method="topk", **settings)})
    model.apply(sparsity)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.apply(sparsity)
    trained(compiled, optimizer)
    want = states(model)
    assert set(got) == set(want) == {"0.weight", "0.bias", "1.weight", "1.bias", "0.weight_mask", "1.weight_mask"}
    assert all(np.array_equal(got[k], want[k]) for k in want)


def test_both_optimizers_can_be_stepped_by_hand(new_run):
    model, compiled = new_run()
    sparsity = older.GMPSparsityOptimizer(
        [model[0].weight], sparsity=[0.2, 0.5, 0.7], update={"freq": 1}, init_method="topk"
    )
    with pytest.raises(RuntimeError, match="hook_module"):
        sparsity.step()
    sparsity.hook_module(model)
    trained(compiled, SGD(model.parameters(), lr=0.1), 2, after=sparsity.step)
    mask = model[0].weight_mask.numpy()
    assert mask.sum() == int(np.float32(1 - 0.7) * 24)
    assert not model[0].weight.detach().numpy()[~mask].any()


def test_patterns_choose_parameters_and_may_have_settings_of_their_own(new_run):
    model, _ = new_run()
    named = list(model.named_parameters())
    made = older.configure_sparsity_optimizer(
        "static", named, {r"^0\.weight": {"sparsity": 0.25}, "weight": None}, sparsity=0.75, init_method="topk"
    )
    made.hook_module(model)
    made.sparsity.initialize()
    assert [int(m.sum()) for m in (model[0].weight_mask, model[1].weight_mask)] == [18, 8]
    one = older.configure_sparsity_optimizer("static", named, ["0.weight", "bias"], sparsity=0.5)
    assert [len(g["params"]) for g in one.param_groups] == [3]
    assert [
        id(p)
        for g in older.configure_sparsity_optimizer(
            "rigl", named, "1", lambda n, p: p.ndim > 1, sparsity=0.5
        ).param_groups
        for p in g["params"]
    ] == [id(model[1].weight)]


def test_state_goes_through_a_state_dict(new_run):
    model, compiled = new_run()
    settings = {"sparsity": 0.5, "update": UPDATE, "init_method": "topk"}
    wrapped = older.configure_sparsity_wrapper(model, SGD(model.parameters(), 0.1, 0.9), "rigl", **settings)
    trained(compiled, wrapped, 3)
    saved_model = {k: v.clone() for k, v in model.state_dict().items()}
    saved = wrapped.state_dict()
    assert int(saved["sparsity"][0]["step"]) == 3
    other, compiled_other = new_run()
    again = older.configure_sparsity_wrapper(other, SGD(other.parameters(), 0.1, 0.9), "rigl", **settings)
    other.load_state_dict(saved_model)
    again.load_state_dict(saved)
    trained(compiled, wrapped, 4)
    trained(compiled_other, again, 4)
    assert all(np.array_equal(v, states(model)[k]) for k, v in states(other).items())


def test_schedules_and_loss_scaling_take_a_wrapper_for_an_optimizer(new_run):
    model, _ = new_run()
    wrapped = older.configure_sparsity_wrapper(model, SGD(model.parameters(), lr=0.1), "static", sparsity=0.5)
    schedule = lr_scheduler.LinearLR(wrapped, 0.1, 0.0, 4)
    scaler = GradScaler()
    x, y = batches(1)[0]
    amp.optimizer_step(((model(x) - y) ** 2).mean(), wrapped, scaler)
    schedule.step()
    assert float(wrapped.param_groups[0]["lr"]) == pytest.approx(0.075)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda named: older.configure_sparsity_optimizer("foo", named, sparsity=0.5), "'foo': expected one of .*gmp"),
        (
            lambda named: older.configure_sparsity_optimizer("set", named, "zz", sparsity=0.5),
            "'zz' matches no parameter",
        ),
        (
            lambda named: older.configure_sparsity_optimizer("set", named, None, lambda n, p: False, sparsity=0.5),
            "No parameter passes the filter",
        ),
    ],
)
def test_bad_settings_are_refused(make, message, new_run):
    model, _ = new_run()
    with pytest.raises(ValueError, match=message):
        make(model.named_parameters())
