"""The tree of settings under `cerebras.pytorch.backends`: checked when they are set.

A run reads optimization_level, retrace_every_iteration and implicit_cast_cb16_to_fp32; no other one has an effect.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cstorch_compat.run.compiler_settings import DebugArgs

Check = Callable[[str, Any], Any]
"""Gives the value to keep for a setting of that name. Raises TypeError or ValueError for one that does not fit."""

_NAMES = {type(None): "NoneType"}
LEVELS = 3
"""Optimization levels 0, 1 and 2."""


def of_type(*kinds: type) -> Check:
    """A setting of one of these types; a bool passes for an int, as in Python."""
    names = [_NAMES.get(k, k.__name__) for k in kinds]
    wanted = names[0] if len(names) == 1 else f"one of {', '.join(names)}"

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError(f"Expected {wanted} for `{name}`. Got {type(value)}: {value}")
        return value

    return check


def positive(name: str, value: Any) -> int:
    """A number of at least one."""
    number: int = of_type(int)(name, value)
    if number < 1:
        raise ValueError(f"{name} must be a positive integer, got {value}")
    return number


def level(name: str, value: Any) -> int:
    """An optimization level."""
    number: int = of_type(int)(name, value)
    if not 0 <= number < LEVELS:
        raise ValueError(f"{name} must be an integer in range [0, {LEVELS}). Got {value}")
    return number


def fabrics(name: str, value: Any) -> list[str] | None:
    """None, or a list of fabrics to avoid."""
    if value is not None and (not isinstance(value, list) or any(v not in ("cs2", "cs3") for v in value)):
        raise TypeError(
            f'Expected one of list of one of "cs2", "cs3", NoneType for `{name}`. Got {type(value)}: {value}'
        )
    return value


def micro_batch_size(name: str, value: Any) -> Any:
    """None, a positive number, "auto", "explore", or bounds to explore, which count as "explore"."""
    if value is None or (isinstance(value, str) and value in ("auto", "explore")):
        return value
    if isinstance(value, dict) and list(value) == ["explore"] and isinstance(value["explore"], dict):
        # The bounds themselves are dropped: nothing is explored here.
        if set(value["explore"]) <= {"min", "max"}:
            return "explore"
    elif isinstance(value, int):
        if value > 0:
            return value
    elif not isinstance(value, dict):
        raise TypeError(
            'Expected one of NoneType, int, "explore", "auto", str to dictionary of str to int pairs pairs for '
            f"`{name}`. Got {type(value)}: {value}"
        )
    raise ValueError(
        f'Invalid value "{value}" for "{name}". Expected one of:\n\t"auto": Automatically choose an optimal micro '
        'batch size.\n\t"explore": Search for an optimal micro batch size and return.\n\t{"explore": {"min": '
        'Optional[<positive_int>], "max": Optional[<positive_int>]}}: The same, between bounds.\n\t<positive_int>: Use '
        "this size.\n\tNone: Do not split the batch."
    )


@dataclass(frozen=True)
class Setting:
    """A default, and what values are allowed."""

    default: Any
    check: Check


class FlagGroup:
    """Settings and smaller groups by name. `locked` says whether a run is going on, in which nothing may change."""

    def __init__(self, name: str, members: dict[str, Any], locked: Callable[[], bool]):
        # Past __setattr__, which knows the settings only once they are here.
        own = self.__dict__
        own["_name"], own["_locked"] = name, locked
        own["_settings"] = {n: m for n, m in members.items() if isinstance(m, Setting)}
        own["_groups"] = {n: FlagGroup(n, m, locked) for n, m in members.items() if n not in own["_settings"]}
        own.update(own["_groups"])
        self.restore()

    def restore(self) -> None:
        """Give every setting its default again."""
        for name, setting in self._settings.items():
            self.__dict__[name] = copy.deepcopy(setting.default)  # scripts add to the trees of `debug` in place
        for group in self._groups.values():
            group.restore()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._groups:
            raise AttributeError(f"{name} is a nested flag and cannot be set directly")
        if name not in self._settings:
            raise AttributeError(f"'_{self._name}' has no flag '{name}'")
        # A value that does not fit is told of first, whether or not a run is going on.
        checked = self._settings[name].check(name, value)
        # A compiled step would not see the change.
        if self._locked():
            raise RuntimeError(f"Cannot change flag {name} during a run: set it before the loop over a DataExecutor.")
        self.__dict__[name] = checked

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'_{self._name}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        members = ", ".join(f"{k}={v}" for k, v in self.__dict__.items() if not k.startswith("_"))
        return f"({members})"


def _memory() -> Setting:
    return Setting(None, of_type(int, type(None)))


def _anything(name: str, value: Any) -> Any:
    return value


def _switch(default: bool) -> Setting:
    return Setting(default, of_type(bool))


CSX = {
    "precision": {"optimization_level": Setting(1, level)},
    "performance": {
        "micro_batch_size": Setting("auto", micro_batch_size),
        "transfer_processes": Setting(5, positive),
        "max_transfer_bytes": Setting(1 << 28, of_type(int)),
        "compress_weights": _switch(False),
        "use_speculative_optimizers": _switch(True),
    },
    "cluster": {"auto_taint": _switch(False)},
    "debug": {
        # Scripts fill these two with whatever the release's compiler took; the simulator takes none of it.
        "debug_args": Setting(DebugArgs(), _anything),
        "ini": Setting(DebugArgs(), _anything),
        "lazy_initialization": _switch(True),
        "drop_data": _switch(False),
        "skip_weight_init": _switch(False),
        "optimize_initialization": _switch(True),
        "log_initialization": _switch(True),
        "retrace_every_iteration": _switch(False),
        "implicit_cast_cb16_to_fp32": _switch(False),
        "check_constraints": _switch(False),
        "save_gpv": _switch(False),
        "skip_connectivity_check": _switch(False),
        "fabric_type_blacklist": Setting(None, fabrics),
        **{
            f"{role}_memory_gi": _memory() for role in ("act", "chf", "cmd", "compile_crd", "execute_crd", "wgt", "wrk")
        },
    },
    "storage": {"s3": {"profile": Setting(None, of_type(str, type(None)))}},
}
"""Names and defaults of release 2.10."""
