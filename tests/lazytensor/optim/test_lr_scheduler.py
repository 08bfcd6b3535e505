"""State dicts of PyTorch's schedules: their keys in order; and rates that are tensors."""

import math

import pytest

import lazytensor as lt
from cstorch_compat.torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn
from lazytensor.nn import Linear, Parameter, Sequential
from lazytensor.optim import eager, lr_cycle, lr_scheduler

SHARED = "base_lrs last_epoch _step_count _is_initial _get_lr_called_within_step _last_lr"
CYCLE = "max_lrs total_size step_ratio mode gamma scale_mode cycle_momentum"
ONE_CYCLE = "total_steps _schedule_phases _anneal_func_type cycle_momentum use_beta1"
KEYS = {
    "StepLR": (lambda o: lr_scheduler.StepLR(o, 2), f"step_size gamma {SHARED}"),
    "MultiStepLR": (lambda o: lr_scheduler.MultiStepLR(o, [1]), f"milestones gamma {SHARED}"),
    "ConstantLR": (lr_scheduler.ConstantLR, f"factor total_iters {SHARED}"),
    "LinearLR": (lr_scheduler.LinearLR, f"start_factor end_factor total_iters {SHARED}"),
    "ExponentialLR": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), f"gamma {SHARED}"),
    "PolynomialLR": (lr_scheduler.PolynomialLR, f"total_iters power {SHARED}"),
    "CosineAnnealingLR": (lambda o: lr_scheduler.CosineAnnealingLR(o, 4), f"T_max eta_min {SHARED}"),
    "CosineAnnealingWarmRestarts": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
        f"T_0 T_i T_mult eta_min T_cur {SHARED}",
    ),
    "LambdaLR": (lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9**k), f"{SHARED} lr_lambdas"),
    "MultiplicativeLR": (lambda o: lr_scheduler.MultiplicativeLR(o, lambda _: 0.9), f"{SHARED} lr_lambdas"),
    "OneCycleLR": (lambda o: lr_cycle.OneCycleLR(o, 0.2, total_steps=9), f"{ONE_CYCLE} {SHARED}"),
    "CyclicLR": (
        lambda o: lr_cycle.CyclicLR(o, 0.01, 0.1),
        f"{CYCLE} use_beta1 base_momentums max_momentums {SHARED} _scale_fn_custom",
    ),
    "CyclicLR without momentum": (
        lambda o: lr_cycle.CyclicLR(o, 0.01, 0.1, cycle_momentum=False),
        f"{CYCLE} {SHARED} _scale_fn_custom",
    ),
    "SequentialLR": (
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o), lr_scheduler.ConstantLR(o)], [2]),
        "_milestones last_epoch _last_lr _schedulers",
    ),
    "ReduceLROnPlateau": (
        lr_cycle.ReduceLROnPlateau,
        "factor default_min_lr min_lrs patience cooldown eps last_epoch _last_lr mode_worse mode threshold "
        "threshold_mode best cooldown_counter num_bad_epochs",
    ),
    "SWALR": (lambda o: SWALR(o, 0.05), f"_anneal_strategy anneal_epochs {SHARED}"),
}


def optimizer(lr=0.1):
    return eager.SGD([Parameter(lt.ones(2))], lr=lr, momentum=0.9)


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_those_of_pytorch(name):
    build, keys = KEYS[name]
    assert list(build(optimizer()).state_dict()) == keys.split()


def advanced(o, schedule):
    for k in range(3):
        o.step()
        schedule.step(*([1.0 + k] if isinstance(schedule, lr_cycle.ReduceLROnPlateau) else []))
    return [float(rate) for rate in schedule.get_last_lr()]


@pytest.mark.parametrize("name", KEYS)
def test_rate_that_is_a_tensor_changes_in_place(name):
    build, _ = KEYS[name]
    plain, rate = optimizer(), lt.tensor(0.1)
    expected = advanced(plain, build(plain))
    o = optimizer(rate)
    schedule = build(o)
    assert advanced(o, schedule) == pytest.approx(expected, rel=1e-6)
    assert o.param_groups[0]["lr"] is rate
    assert schedule.get_last_lr()[0] is not rate


def test_schedule_of_a_sequence_counts_its_steps():
    o = optimizer()
    schedules = [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)]
    sequence = lr_scheduler.SequentialLR(o, schedules, [2])
    for _ in range(4):
        o.step()
        sequence.step()
    assert [s["_step_count"] for s in sequence.state_dict()["_schedulers"]] == [2, 3]


def test_averaging_takes_a_rate_for_each_group():
    o = eager.SGD([{"params": [Parameter(lt.ones(2))]} for _ in range(2)], lr=0.1)
    schedule = SWALR(o, [0.01, 0.02], anneal_epochs=1)
    o.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.01, 0.02]
    with pytest.raises(ValueError, match="same length"):
        SWALR(o, [0.01])


def test_average_takes_a_model_with_fewer_parameters():
    average = AveragedModel(Sequential(Linear(2, 2), Linear(2, 2)), multi_avg_fn=get_ema_multi_avg_fn(0.5))
    smaller = Sequential(Linear(2, 2))
    for _ in range(2):
        average.update_parameters(smaller)
    assert average.module[0].weight.tolist() == smaller[0].weight.tolist()


@pytest.mark.parametrize("mode", ["min", "max"])
def test_measure_that_is_no_number_is_never_the_best(mode):
    optimizer = eager.SGD([Parameter(lt.ones(1))], lr=0.5)
    schedule = lr_cycle.ReduceLROnPlateau(optimizer, mode=mode, patience=0)
    schedule.step(math.nan)
    assert optimizer.param_groups[0]["lr"] == 0.05
    schedule.step(1.0)
    assert schedule.best == 1.0
    schedule.step(math.nan)
    assert (schedule.best, optimizer.param_groups[0]["lr"]) == (1.0, 0.05 * 0.1)
