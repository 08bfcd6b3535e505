"""The tree of settings `cerebras.pytorch.backends`. Each value is checked when it is set.

`cstorch_compat.run.settings` lists which settings have an effect.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import setting_checks as checks
from cstorch_compat.run.compiler_settings import DebugArgs
from cstorch_compat.run.setting_checks import Check, make_type_check


@dataclass(frozen=True)
class Setting:
    """The default of a setting and the check for its values."""

    default: Any
    check: Check


class FlagGroup:
    """A group of settings and nested groups, accessed as attributes.

    `members` are Setting objects and dicts by name. `locked()` returns whether a loop is running, in which no setting
    may change. Assignment raises AttributeError for an unknown name or a nested group, the error of the check for an
    invalid value, and RuntimeError in a running loop.
    """

    def __init__(self, name: str, members: dict[str, Any], locked: Callable[[], bool]):
        # Bypass __setattr__, which needs `_settings` and `_groups`.
        own = self.__dict__
        own["_name"], own["_locked"] = name, locked
        own["_settings"] = {n: m for n, m in members.items() if isinstance(m, Setting)}
        own["_groups"] = {n: FlagGroup(n, m, locked) for n, m in members.items() if n not in own["_settings"]}
        own.update(own["_groups"])
        self.restore()

    def restore(self) -> None:
        """Reset every setting to its default."""
        for name, setting in self._settings.items():
            # copied because scripts change the trees of `debug` in place
            self.__dict__[name] = copy.deepcopy(setting.default)
        for group in self._groups.values():
            group.restore()

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
        """Yield dotted name, value and default of every setting, including nested groups."""
        for name, setting in self._settings.items():
            yield f"{prefix}{name}", self.__dict__[name], setting.default
        for name, group in self._groups.items():
            yield from group.walk(f"{prefix}{name}.")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._groups:
            raise AttributeError(f"{name} is a nested flag and cannot be set directly")
        if name not in self._settings:
            raise AttributeError(f"'_{self._name}' has no flag '{name}'")
        # Report an invalid value first, whether or not a loop is running.
        with reraise_as_builtin():
            checked = self._settings[name].check(name, value)
        # A compiled step would not use the new value.
        if self._locked():
            raise RuntimeError(
                f"Cannot change flag {name} during a run: set it before the loop over a DataExecutor."
                "\n  Set the flag before the loop over a DataExecutor."
            )
        self.__dict__[name] = checked

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'_{self._name}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        members = ", ".join(f"{k}={v}" for k, v in self.__dict__.items() if not k.startswith("_"))
        return f"({members})"


def _memory_setting() -> Setting:
    """Return a setting for an amount of memory in GiB or None."""
    return Setting(None, make_type_check(int, type(None)))


def _bool_setting(default: bool) -> Setting:
    return Setting(default, make_type_check(bool))


CSX_SETTINGS = {
    "precision": {"optimization_level": Setting(1, checks.check_level)},
    "performance": {
        "micro_batch_size": Setting("auto", checks.check_micro_batch_size),
        "transfer_processes": Setting(5, checks.check_positive),
        "max_transfer_bytes": Setting(1 << 28, checks.check_transfer_bytes),
        "compress_weights": _bool_setting(False),
        "use_speculative_optimizers": _bool_setting(True),
    },
    "cluster": {"auto_taint": _bool_setting(False)},
    "debug": {
        "debug_args": Setting(DebugArgs(), checks.make_compiler_tree_check("DebugArgs")),
        "ini": Setting(DebugArgs(), checks.make_compiler_tree_check("INI")),
        "lazy_initialization": _bool_setting(True),
        "drop_data": _bool_setting(False),
        "skip_weight_init": _bool_setting(False),
        "optimize_initialization": _bool_setting(True),
        "log_initialization": _bool_setting(True),
        "retrace_every_iteration": _bool_setting(False),
        "implicit_cast_cb16_to_fp32": _bool_setting(False),
        "check_constraints": _bool_setting(False),
        "save_gpv": _bool_setting(False),
        "op_definition_module": Setting(None, make_type_check(str, type(None))),
        "skip_connectivity_check": _bool_setting(False),
        "fabric_type_blacklist": Setting(None, checks.check_fabrics),
        **{
            f"{role}_memory_gi": _memory_setting()
            for role in ("act", "chf", "cmd", "compile_crd", "execute_crd", "wgt", "wrk")
        },
    },
    "storage": {"s3": {"profile": Setting(None, make_type_check(str, type(None)))}},
}
"""Names, defaults and checks of the settings of release 2.10."""
