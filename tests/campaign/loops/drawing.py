"""Draws a training loop as data.

A loop is a dict of plain values, which JSON can hold. Each entry has a simplest value in `SIMPLEST`; a loop without the
entry is rendered with that value, so that a shrinker can leave entries out.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

Loop = dict[str, Any]
Draw = random.Random

SIMPLEST: Loop = {
    "rows": 4,
    "inputs": "float32",
    "labels": "int64",
    "form": "tuple",
    "loader": "list",
    "batches": 3,
    "workers": 0,
    "layers": [["Linear", 5], ["ReLU"], ["Linear", 3]],
    "device_scope": False,
    "loss": "cross_entropy",
    "optimizer": ["SGD", {"lr": 0.1}],
    "groups": 1,
    "zero_grad": "before",
    "schedule": None,
    "decay_schedule": None,
    "step_call": "plain",
    "scale": None,
    "init": False,
    "clip": None,
    "metrics": [],
    "returns": ["loss"],
    "closures": [],
    "loop_reads": [],
    "runs": [{"kind": "train", "steps": 2, "checkpoint_steps": None}],
    "between": [],
    "before": [],
    "after": [],
    "sparsity": None,
    "summaries": False,
    "saves": [],
    "half": None,
    "level": None,
    "retrace": False,
}
"""The smallest loop, and the value of each entry that a loop leaves out."""

WIDTH, CLASSES = 6, 3
"""Extents of an input row and of the result of the model."""


def drawn(seed: int, number: int) -> Loop:
    """Return loop `number` of a seed. Most loops leave several parts out, so that each part meets few others."""
    draw = random.Random(f"{seed} {number}")
    loop: Loop = {"seed": draw.randrange(1000), "rows": draw.choice((1, 2, 4, 4, 7))}
    loop["inputs"] = draw.choice(("float32", "float32", "float32", "float16", "int64", "int32", "image"))
    loop["layers"] = _layers(draw, loop["inputs"], loop["rows"])
    loop["loss"] = draw.choice(LOSSES)
    is_any_label = loop["loss"] in ("cross_entropy", "CrossEntropyLoss")
    loop["labels"] = "int32" if is_any_label and draw.random() < 0.1 else "int64"
    loop["form"] = draw.choice(("tuple", "tuple", "list", "dict"))
    loop["loader"] = draw.choice(("list",) * 6 + ("torch",) * 4 + ("iterable", "iterable", "generator"))
    loop["batches"] = draw.choice((2, 3, 4, 6))
    loop["workers"] = draw.choice((0,) * 12 + (1, 2)) if loop["loader"] == "torch" else 0
    loop["device_scope"] = draw.random() < 0.2
    _draw_optimizer(draw, loop)
    loop["metrics"] = [_metric(draw) for _ in range(draw.choice((0, 0, 1, 1, 2)))]
    loop["returns"] = ["loss", *(["out"] if draw.random() < 0.4 else []), *(["rate"] if draw.random() < 0.15 else [])]
    loop["runs"] = _runs(draw)
    loop["closures"] = [_closure(draw, loop) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    # CSX refuses a loop that brings nothing to the client, and so most loops bring the loss.
    if draw.random() < 0.9:
        loop["closures"].append({"kind": "step", "is_inside": draw.random() < 0.3, "takes": ["loss"], "reads": []})
    loop["saves"] = _saved(draw, loop)
    for entry, chance in (("loop_reads", 0.3), ("before", 0.1), ("after", 0.4)):
        loop[entry] = [_read(draw, entry, loop)] if draw.random() < chance else []
    loop["between"] = [draw.choice(CHANGES) for _ in range(draw.choice((0, 1, 1, 2)))] if len(loop["runs"]) > 1 else []
    loop["sparsity"] = _sparsity(draw) if draw.random() < 0.15 else None
    if "rigl" in str(loop["sparsity"]):
        _leave_out_ties(loop)
    loop["summaries"] = draw.random() < 0.1
    loop["half"] = draw.choice((None,) * 8 + ("bfloat16", "float16", "cbfloat16"))
    loop["level"] = draw.choice((None,) * 8 + (0, 2))
    loop["retrace"] = draw.random() < 0.05
    return {k: v for k, v in loop.items() if SIMPLEST.get(k, ...) != v}


# --- the model ---

LOSSES = ("cross_entropy", "cross_entropy", "cross_entropy", "CrossEntropyLoss", "mse", "MSELoss", "bce", "mean")
ACTIVATIONS = ("ReLU", "ReLU", "GELU", "Tanh", "Sigmoid")
EXTRAS = ("LayerNorm", "BatchNorm1d", "Scale", "Count", "Twice", "Unused", "Frozen", "Dropout")


def _layers(draw: Draw, inputs: str, rows: int) -> list[list[Any]]:
    layers: list[list[Any]] = []
    if inputs in ("int64", "int32"):
        layers = [["Embedding", draw.choice((4, 6))]]
    elif inputs == "image":
        layers = [["Conv2d", draw.choice((1, 2))], ["Flatten"]]
    for _ in range(draw.choice((0, 1, 1, 2))):
        width = draw.choice((2, 4, 5, 8))
        extra = draw.choice(EXTRAS) if draw.random() < 0.35 else None
        # A norm over two values is their order, which rounding decides where they are close.
        if (extra == "LayerNorm" and width == 2) or (extra == "BatchNorm1d" and rows == 2):
            extra = None
        # The gradient of a bias before a BatchNorm is nothing but rounding.
        has_bias = extra != "BatchNorm1d" and draw.random() < 0.8
        layers.append(["Linear", width, *([] if has_bias else ["no bias"])])
        layers += [[extra]] if extra else []
        layers.append([draw.choice(ACTIVATIONS)])
    return [*layers, ["Linear", CLASSES]]


def _leave_out_ties(loop: Loop) -> None:
    """Change a loop so that no gradient is 0: RigL chooses among equal gradients, and each package its own way."""
    loop["inputs"] = "float32"
    layers = [layer for layer in loop["layers"] if layer[0] not in ("Embedding", "Conv2d", "Flatten")]
    loop["layers"] = [["Tanh"] if layer[0] == "ReLU" else layer for layer in layers]


# --- optimizers and schedules ---


def _near(draw: Draw, *values: Any) -> Callable[[], Any]:
    return lambda: draw.choice(values)


def optimizer_arguments(draw: Draw, name: str) -> dict[str, Any]:
    """Return arguments of an optimizer class; most of them are left out at random."""
    decay, flag = _near(draw, 0.0, 0.01, 0.1), _near(draw, True, False)
    betas = _near(draw, [0.9, 0.999], [0.8, 0.9], [0.0, 0.99])
    options: Mapping[str, Mapping[str, Callable[[], Any]]] = {
        "SGD": {"momentum": _near(draw, 0.5, 0.9), "weight_decay": decay, "maximize": flag},
        "Adam": {"betas": betas, "weight_decay": decay, "amsgrad": flag, "eps": _near(draw, 1e-3, 1e-8)},
        "AdamW": {"betas": betas, "weight_decay": decay, "amsgrad": flag, "correct_bias": flag},
        "Adamax": {"betas": betas, "weight_decay": decay, "maximize": flag},
        "NAdam": {"betas": betas, "weight_decay": decay, "momentum_decay": _near(draw, 0.01, 0.1)},
        "RAdam": {"betas": betas, "weight_decay": decay},
        "Lamb": {"betas": betas, "weight_decay": decay, "adam": flag},
        "Lion": {"betas": betas, "weight_decay": decay},
        "Adadelta": {"rho": _near(draw, 0.5, 0.95), "weight_decay": decay, "maximize": flag},
        "Adagrad": {"lr_decay": _near(draw, 0.1, 0.01), "weight_decay": decay, "initial_accumulator_value": decay},
        "Adafactor": {"beta1": _near(draw, None, 0.9), "weight_decay": decay, "scale_parameter": flag},
        "ASGD": {"lambd": _near(draw, 0.01, 0.1), "alpha": _near(draw, 0.5), "t0": _near(draw, 0.0, 2.0)},
        "RMSprop": {"alpha": _near(draw, 0.9), "momentum": _near(draw, 0.5), "centered": flag, "weight_decay": decay},
        "Rprop": {"etas": _near(draw, [0.5, 1.2], [0.3, 2.0]), "step_sizes": _near(draw, [1e-4, 0.1])},
        "Muon": {"momentum": _near(draw, 0.9, 0.5), "nesterov": flag, "weight_decay": decay},
    }
    chosen = {key: value() for key, value in options[name].items() if draw.random() < 0.4}
    if name == "SGD" and chosen.get("momentum") and draw.random() < 0.3:
        chosen["nesterov"] = True
    rate = draw.choice((0.1, 0.05, 0.01))
    return {"lr": rate if name != "Adadelta" else draw.choice((1.0, 0.5)), **chosen}


OPTIMIZERS = (
    *("SGD",) * 5,
    *("AdamW",) * 3,
    *("Adam", "Adamax", "NAdam", "RAdam", "Lamb", "Lion", "Adadelta", "Adagrad", "Adafactor", "ASGD", "RMSprop"),
    *("Rprop", "Muon"),
)


def schedule_arguments(draw: Draw, name: str) -> dict[str, Any]:
    """Return arguments of a schedule by generic names: `initial`, `end`, and those of each class."""
    steps, start = _near(draw, 1, 2, 3, 5), _near(draw, 0.5, 0.1, 0.05)
    table: Mapping[str, Mapping[str, Callable[[], Any]]] = {
        "Constant": {"value": start},
        "Linear": {"initial": start, "end": _near(draw, 0.0, 0.01, 0.2), "total_iters": steps},
        "Polynomial": {
            "initial": start,
            "end": _near(draw, 0.0, 0.01),
            "total_iters": steps,
            "power": _near(draw, 2.0),
        },
        "CosineDecay": {"initial": start, "end": _near(draw, 0.0, 0.01), "total_iters": steps},
        "CosineAnnealing": {"initial": start, "T_max": steps, "eta_min": _near(draw, 0.0, 0.01)},
        "CosineAnnealingWarmRestarts": {"initial": start, "T_0": steps, "T_mult": _near(draw, 1, 2)},
        "Exponential": {
            "initial": start,
            "total_iters": steps,
            "decay_rate": _near(draw, 0.5, 0.9),
            "staircase": _near(draw, True, False),
        },
        "InverseExponentialTimeDecay": {
            "initial": start,
            "step_exponent": _near(draw, 1, 2),
            "total_iters": steps,
            "decay_rate": _near(draw, 0.5, 0.9),
        },
        "InverseSquareRootDecay": {"initial": start, "scale": _near(draw, 1.0, 0.5), "warmup_steps": _near(draw, 1, 2)},
        "Step": {"initial": start, "step_size": steps, "gamma": _near(draw, 0.5, 0.1)},
        "MultiStep": {"initial": start, "gamma": _near(draw, 0.5, 0.1), "milestones": _near(draw, [1], [1, 3], [2, 3])},
        "Multiplicative": {"initial": start, "coefficient": _near(draw, 0.5, 0.9)},
        "Cyclic": {
            "base": _near(draw, 0.01),
            "max": start,
            "step_size_up": steps,
            "mode": _near(draw, "triangular", "triangular2", "exp_range"),
            "gamma": _near(draw, 0.9),
        },
        "OneCycle": {
            "initial": _near(draw, 0.01, 0.05),
            "max": start,
            "total_steps": _near(draw, 4, 6),
            "pct_start": _near(draw, 0.3, 0.5),
            "anneal_strategy": _near(draw, "cos", "linear"),
        },
        "PiecewiseConstant": {"values": _near(draw, [0.1, 0.01], [0.5, 0.1]), "milestones": _near(draw, [1], [2])},
    }
    return {key: value() for key, value in table[name].items()}


SCHEDULES = (
    *("Constant", "Linear", "Linear", "Polynomial", "CosineDecay", "CosineAnnealing", "CosineAnnealingWarmRestarts"),
    *("Exponential", "InverseExponentialTimeDecay", "InverseSquareRootDecay", "Step", "MultiStep", "Multiplicative"),
    *("Cyclic", "OneCycle", "PiecewiseConstant"),
)


def schedule(draw: Draw, depth: int = 0) -> list[Any]:
    """Return a schedule: its kind and arguments, or the kind and its parts."""
    kind = draw.random()
    if depth == 0 and kind < 0.12:
        parts = [schedule(draw, 1) for _ in range(draw.choice((2, 2, 3)))]
        return ["Sequential", parts, sorted(draw.sample((1, 2, 3, 4), len(parts) - 1))]
    if depth == 0 and kind < 0.2:
        return ["Chained", [schedule(draw, 1) for _ in range(2)]]
    if depth == 0 and kind < 0.25:
        return ["ScalePerParam", schedule(draw, 1)]
    name = draw.choice(SCHEDULES)
    return [name, schedule_arguments(draw, name)]


def _draw_optimizer(draw: Draw, loop: Loop) -> None:
    name = draw.choice(OPTIMIZERS)
    loop["optimizer"] = [name, optimizer_arguments(draw, name)]
    loop["groups"] = draw.choice((1, 1, 1, 2))
    loop["zero_grad"] = draw.choice(("before", "before", "after", "zeros"))
    loop["schedule"] = schedule(draw) if draw.random() < 0.5 else None
    has_decay = "weight_decay" in loop["optimizer"][1]
    loop["decay_schedule"] = schedule(draw, 1) if has_decay and draw.random() < 0.2 else None
    loop["step_call"] = draw.choice(("plain",) * 7 + ("scaler", "optimizer_step"))
    loop["scale"] = draw.choice((None, 8.0, "dynamic")) if loop["step_call"] != "plain" else None
    loop["clip"] = draw.choice((None, None, None, ["norm", 0.1], ["norm", 5.0], ["value", 0.05]))


# --- what is read, saved and changed ---

METRICS: Mapping[str, Callable[[Draw], dict[str, Any]]] = {
    "AccuracyMetric": lambda draw: {},
    "MeanMetric": lambda draw: {},
    "PerplexityMetric": lambda draw: {},
    "MeanPerClassAccuracyMetric": lambda draw: {"num_classes": CLASSES},
    "FBetaScoreMetric": lambda draw: {
        "num_classes": CLASSES,
        "beta": draw.choice((1.0, 2.0)),
        "average_type": draw.choice(("micro", "macro")),
    },
    "DiceCoefficientMetric": lambda draw: {"num_classes": CLASSES},
    "MeanIOUMetric": lambda draw: {"num_classes": CLASSES},
    "AUCMetric": lambda draw: {"num_thresholds": draw.choice((5, 20)), "curve": draw.choice(("ROC", "PR"))},
    "PrecisionAtKMetric": lambda draw: {"k": draw.choice((1, 2))},
    "RecallAtKMetric": lambda draw: {"k": draw.choice((1, 2))},
}
"""Class -> its arguments beside the name."""


def _metric(draw: Draw) -> list[Any]:
    # The last three are refused on CSX.
    name = draw.choice(("AccuracyMetric", "AccuracyMetric", *list(METRICS)[:-3] * 2, *METRICS))
    return [name, METRICS[name](draw)]


CHANGES = ("weights", "load", "rate", "metrics", "freeze", "seed", "train mode", "copy", "data", "closure")
"""What a script may change between two executions."""


def _runs(draw: Draw) -> list[dict[str, Any]]:
    kinds = draw.choice((["train"],) * 3 + (["train", "eval"], ["train", "train"], ["eval", "train"], ["eval"]))
    return [
        {
            "kind": kind,
            "steps": draw.choice((1, 2, 3, 4, 5)),
            "checkpoint_steps": draw.choice((None, 0, 1, 2, 2, 3, 7, [1, 3, 1, False], [0, 4, 2, True])),
            **({"break": draw.choice((1, 2))} if draw.random() < 0.05 else {}),
        }
        for kind in kinds
    ]


TAKEN = ("loss", "loss", "out", "rate", "group rate", "weight", "metric", "number", "scale")
READ = ("rate", "group rate", "metric", "iteration", "weight", "scale", "state names", "schedule state")


def _closure(draw: Draw, loop: Loop) -> dict[str, Any]:
    is_checkpoint = draw.random() < 0.3
    is_inside = draw.random() < 0.35
    takes = draw.sample(TAKEN, draw.choice((1, 1, 2, 3)))
    reads = draw.sample(READ, draw.choice((0, 1, 1, 2)))
    # The weights come back to the client in checkpoint closures only.
    if not is_checkpoint:
        reads = [r for r in reads if r not in ("weight", "schedule state") or draw.random() < 0.15]
    kind = "checkpoint" if is_checkpoint else "step"
    closure = {"kind": kind, "is_inside": is_inside, "takes": takes, "reads": reads}
    return {**closure, "by_name": True} if draw.random() < 0.1 else closure


SAVED = ("model", "optimizer", "schedule", "scaler", "metrics", "sparsity", "number")


def _saved(draw: Draw, loop: Loop) -> list[str]:
    if draw.random() < 0.6:
        return []
    return ["model", *(name for name in SAVED[1:] if draw.random() < 0.6)]


def _read(draw: Draw, place: str, loop: Loop) -> str:
    if place == "loop_reads":
        return draw.choice(("kind",) * 6 + ("iteration",) * 6 + ("loss", "print", "rate", "metric", "sum", "if"))
    if place == "before":
        return draw.choice(("save", "weight", "rate", "closure", "print", "metric", "write"))
    return draw.choice(("weight", "metric", "metric", "rate", "save", "closure", "iteration"))


def _sparsity(draw: Draw) -> Any:
    kind = draw.choice(("number", "static", "gmp", "set", "rigl"))
    if kind == "number":
        return draw.choice((0.5, 0.75))
    update = {"freq": draw.choice((1, 2)), "start": draw.choice((0, 1)), "stop": draw.choice((None, 4))}
    base = {"algorithm": kind, "sparsity": draw.choice((0.3, 0.5)), "init_method": draw.choice(("topk", "random"))}
    if kind == "static":
        return base
    if kind == "gmp":
        return {**base, "schedule": ["exp", 0.1, 0.1], "update": update}
    return {**base, "update": update, "drop_fraction": draw.choice((0.3, 0.5))}
