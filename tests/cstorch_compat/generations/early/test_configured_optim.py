"""Optimizers, schedules and groups made from configurations, as in releases 1.8 to 2.3."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.generations.early import configured_optim
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn

optim = get_mirror("cerebras.pytorch.optim")
lr = get_mirror("cerebras.pytorch.optim.lr_scheduler")


@pytest.fixture(autouse=True, scope="module")
def backend(tmp_path_factory):
    before, process.RUN.backend = process.RUN.backend, None
    process.make_backend("CPU", tmp_path_factory.mktemp("run"))
    yield
    process.RUN.backend = before


def sgd(rate: float = 0.5) -> optim.SGD:
    return optim.SGD([nn.Parameter(lt.ones(2))], lr=rate)


def rates(schedule, steps: int = 12) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(float(schedule.get_last_lr()[0]))
        schedule.step()
    return found


@pytest.mark.parametrize("name", sorted(c.__name__ for c in configured_optim.OPTIMIZERS.values()))
def test_every_optimizer_is_made_by_its_name_in_any_case(name):
    params = [nn.Parameter(lt.ones(2, 2))]
    for spelled in (name, name.lower(), name.upper()):
        assert type(configured_optim.configure_optimizer(spelled, params, lr=0.1)) is getattr(optim, name)


def test_older_names_of_settings_are_taken_with_a_warning():
    params = [nn.Parameter(lt.ones(2))]
    with pytest.warns(UserWarning) as told:
        made = configured_optim.configure_optimizer(
            "adamw", params, beta1=0.8, beta2=0.9, weight_decay_rate=0.1, learning_rate=1
        )
    assert made.defaults["betas"] == (0.8, 0.9) and made.defaults["weight_decay"] == 0.1
    assert made.defaults["lr"] == 0.1
    assert any("learning_rate" in str(w.message) for w in told)


def test_an_unknown_optimizer_or_schedule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"Invalid optimizer type. Expected one of .*AdamW.*Got: LBFGS"):
        configured_optim.configure_optimizer("LBFGS", [nn.Parameter(lt.ones(1))])
    with pytest.raises(ValueError, match=r"LinearLR.*Got: Triangle"):
        configured_optim.configure_lr_scheduler(sgd(), {"scheduler": "Triangle"})


LINEAR = {"initial_learning_rate": 0.1, "end_learning_rate": 0.0, "total_iters": 10}


@pytest.mark.parametrize("name", ["Linear", "LinearLR", "linear"])
@pytest.mark.parametrize("spelled", [LINEAR, {"learning_rate": 0.1, "end_learning_rate": 0.0, "steps": 10}])
def test_a_schedule_is_made_by_its_name_with_or_without_lr(name, spelled):
    want = rates(lr.LinearLR(sgd(), 0.1, 0.0, 10))
    assert rates(configured_optim.configure_lr_scheduler(sgd(), {"scheduler": name, **spelled})) == want


@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3), seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_a_list_is_one_schedule_after_the_other(lengths, seed):
    values = np.random.default_rng(seed).integers(1, 9, len(lengths)) / 8.0
    parts = [
        {"scheduler": "Constant", "learning_rate": float(v), "total_iters": n}
        for v, n in zip(values, lengths, strict=True)
    ]
    found = rates(configured_optim.configure_lr_scheduler(sgd(), parts), sum(lengths))
    assert found == [float(v) for v, n in zip(values, lengths, strict=True) for _ in range(n)]


def test_a_chained_list_is_a_product():
    parts = [
        {"scheduler": "Constant", "learning_rate": 0.5, "main_scheduler": "chained"},
        {"scheduler": "Exponential", "initial_learning_rate": 1.0, "total_iters": 1, "decay_rate": 0.5},
    ]
    assert rates(configured_optim.configure_lr_scheduler(sgd(), parts), 3) == [0.5, 0.25, 0.125]
    with pytest.raises(ValueError, match="chained"):
        configured_optim.configure_lr_scheduler(sgd(), parts, adjust_learning_rate={"embedding": 2.0})


def test_boundaries_and_values_are_milestones_and_rates():
    given_ = {"scheduler": "PiecewiseConstant", "values": [0.5, 0.25], "boundaries": [2]}
    assert rates(configured_optim.configure_lr_scheduler(sgd(), given_), 4) == [0.5, 0.5, 0.25, 0.25]


def test_a_number_makes_a_constant_in_release_1_8_and_nothing_later():
    assert configured_optim.configure_lr_scheduler(sgd(), 0.25) is None
    assert configured_optim.configure_lr_scheduler_1_8(sgd(), None) is None
    assert rates(configured_optim.configure_lr_scheduler_1_8(sgd(), 0.25), 2) == [0.25, 0.25]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.fc = nn.Embedding(3, 2), nn.LayerNorm(2), nn.Linear(2, 2)
        self.frozen = nn.Linear(2, 2)
        self.frozen.requires_grad_(False)


def test_groups_hold_each_trainable_parameter_once_and_scale_its_rate():
    model = Decoder()
    groups = configured_optim.configure_param_groups(
        model, {"weight_decay": 0.1, "adjust_learning_rate": {"embedding": 4.0}}
    )
    names = {id(p): n for n, p in model.named_parameters()}
    settings_ = {names[id(p)]: (g["weight_decay"], g["adjust_learning_rate"]) for g in groups for p in g["params"]}
    assert settings_ == {
        "embedding.weight": (0.1, 4.0),
        "norm.weight": (0.0, 1.0),
        "norm.bias": (0.0, 1.0),
        "fc.weight": (0.1, 1.0),
        "fc.bias": (0.0, 1.0),
    }
    optimizer = configured_optim.configure_optimizer("SGD", groups, lr=1.0)
    configured_optim.configure_lr_scheduler(optimizer, 0.5, adjust_learning_rate={"embedding": 4.0})
    assert [float(g["lr"]) for g in optimizer.param_groups] == [0.5 * g["adjust_learning_rate"] for g in groups]
