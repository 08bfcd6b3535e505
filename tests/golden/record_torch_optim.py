"""Record what PyTorch's optimizers and schedules do, once, into torch_optim.npz and torch_schedules.json.

    python tests/golden/record_torch_optim.py        # in an environment with torch and numpy

`tests/lazytensor/optim/eager/test_optimizers.py` imports the cases below and follows them.
"""

import importlib
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
STEPS = 20
START = [[0.5, -1.25, 2.0], [0.0, 3.0, -0.75]]

OPTIMIZERS = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.02}),
    "SGD nesterov": ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True, "maximize": True}),
    "Adam": ("Adam", {"lr": 0.1}),
    "Adam amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.95)}),
    "AdamW": ("AdamW", {"lr": 0.1, "weight_decay": 0.2}),
    "AdamW maximize": ("AdamW", {"lr": 0.1, "maximize": True, "amsgrad": True}),
    "Adagrad": ("Adagrad", {"lr": 0.3, "lr_decay": 0.1, "weight_decay": 0.05, "initial_accumulator_value": 0.2}),
    "RMSprop": ("RMSprop", {"lr": 0.05, "weight_decay": 0.01}),
    "RMSprop centered": ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.7, "alpha": 0.9}),
    "Adadelta": ("Adadelta", {"lr": 2.0, "weight_decay": 0.01}),
    "Adamax": ("Adamax", {"lr": 0.1, "weight_decay": 0.03}),
    "NAdam": ("NAdam", {"lr": 0.1, "weight_decay": 0.03}),
    "NAdam decoupled": ("NAdam", {"lr": 0.1, "weight_decay": 0.03, "decoupled_weight_decay": True}),
    "RAdam": ("RAdam", {"lr": 0.1, "weight_decay": 0.03}),
    "RAdam decoupled": ("RAdam", {"lr": 0.1, "weight_decay": 0.03, "decoupled_weight_decay": True}),
    "ASGD": ("ASGD", {"lr": 0.1, "t0": 4, "weight_decay": 0.01}),
    "Rprop": ("Rprop", {"lr": 0.1}),
}
SCHEDULES = {
    "StepLR": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "MultiStepLR": ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.3}),
    "ConstantLR": ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    "LinearLR": ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 7}),
    "ExponentialLR": ("ExponentialLR", {"gamma": 0.9}),
    "PolynomialLR": ("PolynomialLR", {"total_iters": 8, "power": 2.0}),
    "CosineAnnealingLR": ("CosineAnnealingLR", {"T_max": 6, "eta_min": 0.01}),
    "CosineAnnealingWarmRestarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    "OneCycleLR": ("OneCycleLR", {"max_lr": 1.0, "total_steps": 21}),
    "OneCycleLR three": (
        "OneCycleLR",
        {"max_lr": 1.0, "total_steps": 21, "three_phase": True, "anneal_strategy": "linear"},
    ),
    "CyclicLR": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.9, "step_size_up": 3, "step_size_down": 4}),
    "CyclicLR 2": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.9, "step_size_up": 3, "mode": "triangular2"}),
    "CyclicLR exp": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.9, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    "ReduceLROnPlateau": ("ReduceLROnPlateau", {"patience": 1, "cooldown": 1, "factor": 0.5, "min_lr": 0.02}),
    "LambdaLR": ("LambdaLR", {"lr_lambda": lambda e: 1 / (1 + e)}),
    "MultiplicativeLR": ("MultiplicativeLR", {"lr_lambda": lambda e: 0.95 if e % 2 else 0.8}),
}


def sequential(module, optimizer):
    """Two schedules that follow on a third."""
    parts = [
        module.LinearLR(optimizer, 0.1, total_iters=4),
        module.CosineAnnealingLR(optimizer, 6),
        module.StepLR(optimizer, 2),
    ]
    return module.SequentialLR(optimizer, parts, [4, 10])


def chained(module, optimizer):
    """Two schedules at once."""
    return module.ChainedScheduler([module.ConstantLR(optimizer, 0.1, 3), module.ExponentialLR(optimizer, 0.9)])


COMBINED = {"SequentialLR": sequential, "ChainedScheduler": chained}


def gradients():
    """A gradient for each step: exact in binary, so that both sides start from the same."""
    rng = np.random.default_rng(5)
    return np.round(rng.normal(size=(STEPS, 2, 3)) * 64).astype(np.float32) / 64


def measures():
    """A loss that stops falling now and then."""
    return [5.0, 4.0, 4.0, 4.5, 4.2, 3.0, 3.0, 3.0, 3.0, 3.1, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5]


def trajectory(tensor, optim, kind, options):
    """The parameter after each step."""
    p = tensor(START)
    p.requires_grad_()
    o = getattr(optim, kind)([p], **options)
    out = []
    for g in gradients():
        p.grad = tensor(g)
        o.step()
        out.append(p.detach().numpy().copy())
    return np.array(out)


def rates(tensor, optim, module, build):
    """Rate and momentum of the single group at each epoch."""
    p = tensor(START)
    p.requires_grad_()
    p.grad = tensor(START)
    o = optim.SGD([p], lr=0.5, momentum=0.9)
    schedule = build(module, o)
    out = []
    for loss in measures():
        out.append((o.param_groups[0]["lr"], o.param_groups[0]["momentum"]))
        o.step()
        schedule.step(*([loss] if "Plateau" in type(schedule).__name__ else []))
    return out


def builders():
    """Every schedule by name, as a function of the module and an optimizer."""
    single = {n: (lambda m, o, k=k, kw=kw: getattr(m, k)(o, **kw)) for n, (k, kw) in SCHEDULES.items()}
    return {**single, **COMBINED}


def main():
    torch = importlib.import_module("torch")  # only here: the tests import the cases without it

    found = {n: trajectory(torch.tensor, torch.optim, *case) for n, case in OPTIMIZERS.items()}
    np.savez_compressed(HERE / "torch_optim.npz", **found)
    module = torch.optim.lr_scheduler
    lines = {n: rates(torch.tensor, torch.optim, module, build) for n, build in builders().items()}
    text = ",\n".join(f" {json.dumps(n)}: {json.dumps(line)}" for n, line in lines.items())
    (HERE / "torch_schedules.json").write_text(f'{{\n "torch": "{torch.__version__}",\n{text}\n}}\n')
    print(f"torch {torch.__version__}: {len(found)} optimizers, {len(lines)} schedules", file=sys.stderr)


if __name__ == "__main__":
    main()
