"""Functions of releases 1.8 to 2.3 that create optimizers, schedules and parameter groups from configurations."""

import fnmatch
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.optim import lr_scheduler as schedules
from cstorch_compat.cerebras.pytorch.optim import optimizers
from cstorch_compat.cerebras.pytorch.optim.schedules import LRScheduler, Scheduler
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.core import source
from lazytensor.errors import OptionInvalid
from lazytensor.nn.module import Module

PLACEHOLDER_LR = 0.1
"""The learning rate of an optimizer configured without one, which a schedule is expected to replace."""
PAIRED_SETTINGS = {
    ("beta1", "beta2"): "betas",
    ("eps1", "eps2"): "eps",
    ("eta1", "eta2"): "etas",
    ("step_size_min", "step_size_max"): "step_sizes",
}
"""Pairs of settings in a configuration, and the argument of the class that combines them."""
SCHEDULE_ALIASES = {
    "steps": "total_iters",
    "decay_steps": "total_iters",
    "learning_rate": "initial_learning_rate",
    "base_lr": "initial_learning_rate",
    "values": "learning_rates",
    "boundaries": "milestones",
    "val": "learning_rate",
}
"""Older names of schedule arguments, and the current names."""
LR_GROUP_PATTERNS = {
    "embedding": ("*embedding*weight",),
    "decoder_kernel": ("*decoder*dense*weight", "*decoder*linear*weight"),
}
"""Named groups of parameters with an adjustable learning rate, and the patterns of their parameter names."""


def _find_classes(module: Any, base: type) -> dict[str, type]:
    """Return the proper subclasses of `base` that are attributes of `module`, by lower-case name.

    Attributes with another name than the class (aliases) and classes whose name begins with "_" are left out.
    """
    below = {n: c for n, c in vars(module).items() if inspect.isclass(c) and issubclass(c, base) and c is not base}
    return {n.lower(): c for n, c in below.items() if n == c.__name__ and not n.startswith("_")}


OPTIMIZERS = _find_classes(optimizers, optimizers.Optimizer)
SCHEDULES = _find_classes(schedules, LRScheduler)


def configure_optimizer(optimizer_type: str, params: Any, **kwargs: Any) -> Any:
    """Return an optimizer of the class named `optimizer_type`, in any case, for the parameters `params`.

    `kwargs` are its arguments under current or older names. Arguments that the class does not have are ignored with a
    warning. Without a learning rate it is 0.1. Raises OptionInvalid for an unknown name.
    """
    kind = OPTIMIZERS.get(str(optimizer_type).lower())
    if kind is None:
        known = sorted(c.__name__ for c in OPTIMIZERS.values())
        raise OptionInvalid(
            f"Invalid optimizer type. Expected one of {known}. Got: {optimizer_type}",
            where=source.where(),
            hint="Pass one of these names.",
        )
    arguments = inspect.signature(kind).parameters
    settings = dict(_rename_settings(kwargs))
    unknown = sorted(settings.keys() - arguments.keys())
    if unknown:
        warn(f"{kind.__name__} has no settings {', '.join(unknown)}: they are ignored")
    settings = {k: v for k, v in settings.items() if k in arguments}
    # In these releases only the schedule defines the learning rate, but the current classes require one.
    settings.setdefault("lr", PLACEHOLDER_LR)
    return kind(params, **settings)


def _rename_settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of optimizer settings with the argument names of the classes.

    "weight_decay_rate" becomes "weight_decay". A pair of `PAIRED_SETTINGS`, such as two betas, becomes one tuple if
    both are given. Each renamed setting or pair issues a warning.
    """
    left = dict(settings)
    if "weight_decay_rate" in left:
        warn("weight_decay_rate is an older name: use weight_decay")
        left["weight_decay"] = left.pop("weight_decay_rate")
    for pair, name in PAIRED_SETTINGS.items():
        if all(part in left for part in pair):
            warn(f"{' and '.join(pair)} are older names: use {name} = ({', '.join(pair)})")
            left[name] = tuple(left.pop(part) for part in pair)
    yield from left.items()


def configure_lr_scheduler(optimizer: Any, learning_rate: Any, adjust_learning_rate: Any = None) -> Any:
    """Return a learning rate schedule described by `learning_rate`, or None if it is a number or empty.

    A dict describes one schedule: the key "scheduler" is its name, and the others are arguments. A list of dicts gives
    schedules one after another, or their product if one of them has "main_scheduler": "chained". If
    `adjust_learning_rate` is true, the rate is multiplied by the factor "adjust_learning_rate" of each parameter group,
    and a number gives a constant schedule. Raises OptionInvalid for an invalid configuration.
    """
    if not learning_rate:
        return None
    if isinstance(learning_rate, int | float):
        if not adjust_learning_rate:
            return None
        # A schedule applies the factors of groups, so a number needs a constant schedule.
        learning_rate = {"scheduler": "Constant", "learning_rate": learning_rate}
    schedule = _make_schedule(optimizer, learning_rate, bool(adjust_learning_rate))
    return schedules.ScalePerParamLR(optimizer, schedule) if adjust_learning_rate else schedule


def configure_lr_scheduler_1_8(optimizer: Any, learning_rate: Any) -> Any:
    """Return a constant schedule for a number, and otherwise the result of `configure_lr_scheduler`.

    None and 0 give None.
    """
    if learning_rate and isinstance(learning_rate, int | float):
        return schedules.ConstantLR(optimizer, learning_rate)
    return configure_lr_scheduler(optimizer, learning_rate)


def _make_schedule(optimizer: Any, settings: Any, is_adjusted: bool) -> Scheduler:
    """Return the schedule for a dict of settings, or for a list of dicts.

    A list gives schedules one after another, where all but the last need a length. If the "main_scheduler" of any dict
    begins with "chained", in any case, it gives the product of the schedules. Raises OptionInvalid for other objects,
    for a missing length, and for a product with `is_adjusted`, which means that factors of groups are applied.
    """
    if isinstance(settings, Mapping):
        return _make_single_schedule(optimizer, settings)
    if not isinstance(settings, Sequence) or isinstance(settings, str):
        raise _make_config_error(
            f"learning_rate must be a number, a dict or a list of dicts. Got: {type(settings).__name__}"
        )
    parts = [_make_single_schedule(optimizer, part) for part in settings]
    if any(str(part.get("main_scheduler", "")).lower().startswith("chained") for part in settings):
        if is_adjusted:
            raise _make_config_error("a chained schedule cannot be combined with adjust_learning_rate")
        return schedules.ChainedLR(parts)
    lengths = [_schedule_length(part) for part in settings[:-1]]
    return schedules.SequentialLR(optimizer, parts, list(itertools.accumulate(lengths)))


def _schedule_length(part: Mapping[str, Any]) -> int:
    """Return the number of steps of a schedule in a list.

    It is the first of "total_iters", "steps" and "decay_steps" that `part` contains. Raises OptionInvalid if all are
    missing.
    """
    lengths: list[int] = [part[name] for name in ("total_iters", "steps", "decay_steps") if name in part]
    if lengths:
        return lengths[0]
    raise _make_config_error(f"each schedule of a list needs total_iters, its number of steps. Got: {dict(part)}")


def _make_single_schedule(optimizer: Any, part: Mapping[str, Any]) -> Scheduler:
    """Return the schedule for a dict of settings. The name "scheduler" is in any case, and may lack the ending "LR".

    The other keys, except "main_scheduler" and "adjust_learning_rate", are arguments of the class. Raises OptionInvalid
    if the name is missing or unknown. Errors of the class for its arguments propagate.
    """
    settings = {k: v for k, v in part.items() if k not in ("scheduler", "main_scheduler", "adjust_learning_rate")}
    name = str(part.get("scheduler", "")).lower()
    kind = SCHEDULES.get(name) or SCHEDULES.get(f"{name}lr")
    if kind is None:
        known = sorted(c.__name__ for c in SCHEDULES.values())
        raise _make_config_error(f"the key scheduler must be one of {known}. Got: {part.get('scheduler')}")
    schedule: Scheduler = kind(optimizer, **map_to_arguments(kind, settings))
    return schedule


def map_to_arguments(kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return schedule settings with the argument names of the class `kind`, which may be given by older names.

    A length is dropped if the class has no such argument, because it is then that of a schedule in a list. Other
    unknown names are kept unchanged, so that the class refuses them.
    """
    arguments = _argument_names(kind)
    named = {_resolve_alias(arguments, k): v for k, v in settings.items()}
    return {k: v for k, v in named.items() if k in arguments or SCHEDULE_ALIASES.get(k, k) != "total_iters"}


def _argument_names(kind: type) -> set[str]:
    """Return the public argument names of a schedule's class, with "self" and "optimizer".

    They come from the first constructor in the resolution order that is not that of LRScheduler.
    """
    # LRScheduler accepts any keyword, so the first other class with a constructor defines the arguments.
    first = next(vars(c)["__init__"] for c in kind.__mro__ if "__init__" in vars(c) and c is not LRScheduler)
    return {LRScheduler.NAMES.get(p, p) for p in inspect.signature(first).parameters}


def _resolve_alias(arguments: set[str], name: str) -> str:
    """Return the argument for a key of a configuration.

    It is the current name of an older key if the key is not in `arguments` and the current name is. Otherwise it is the
    key itself, also if it is unknown.
    """
    alias = SCHEDULE_ALIASES.get(name, name)
    return name if name in arguments or alias not in arguments else alias


def configure_param_groups(model: Module, optimizer_params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the trainable parameters of `model` as parameter groups with equal settings.

    Groups are in the order of their first parameter. Each group has "weight_decay" and "adjust_learning_rate". The
    decay is "weight_decay" (or the older "weight_decay_rate") of `optimizer_params`, by default 0. It is 0 for
    parameters named "bias" and those of modules with "norm" in their class name.
    `optimizer_params["adjust_learning_rate"]` maps a group name of `LR_GROUP_PATTERNS`, or a pattern of parameter
    names, to a factor. The first match counts, and others get 1.
    """
    decay = optimizer_params.get("weight_decay", optimizer_params.get("weight_decay_rate", 0.0))
    factors = optimizer_params.get("adjust_learning_rate") or {}
    # Compare by identity, because a parameter may belong to several modules.
    plain = {
        id(p)
        for name, module in model.named_modules()
        for key, p in module.named_parameters(recurse=False)
        if key == "bias" or "norm" in type(module).__name__.lower()
    }
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        settings = {"weight_decay": 0.0 if id(p) in plain else decay, "adjust_learning_rate": _lr_factor(name, factors)}
        # Parameters with equal settings share a group. Groups are in the order of their first parameter.
        groups.setdefault(tuple(settings.values()), {"params": [], **settings})["params"].append(p)
    return list(groups.values())


def _lr_factor(name: str, factors: Mapping[str, float]) -> float:
    """Return the factor of the first entry in `factors` that matches the parameter's name, else 1.

    A key is a group of `LR_GROUP_PATTERNS`, or a shell-style pattern such as "*bias".
    """
    for group, factor in factors.items():
        # The first match counts, so the order of the configuration matters.
        if any(fnmatch.fnmatch(name, pattern) for pattern in LR_GROUP_PATTERNS.get(group, (group,))):
            return factor
    return 1.0


def _make_config_error(what: str) -> OptionInvalid:
    return OptionInvalid(what, where=source.where(), hint="Correct the configuration of the learning rate.")
