"""What `cerebras_appliance` and `cerebras.appliance` offer to scripts: settings of the cluster, without effect here.

The modules of the package that scripts name are all this one.
"""

import enum
import logging
from typing import Any

from cstorch_compat.run.compiler_settings import DebugArgs

TRACE, VERBOSE = 5, 15
"""Levels of logging below and above DEBUG."""


class ExecutionStrategy(enum.IntEnum):
    """How a model is executed."""

    ES_UNSPECIFIED = 0
    ES_PIPELINE = 1
    ES_WEIGHT_STREAMING = 2


def get_debug_args(path: Any = None, *_: Any, **__: Any) -> DebugArgs:
    """Settings for the compiler; the file is not read, since they have no effect."""
    return DebugArgs()


def update_debug_args_with_autogen_policy(debug_args: DebugArgs, policy: str | None = None) -> None:
    """Keep which left-over operations the compiler should generate; here it generates all of them."""
    debug_args.autogen_policy = policy


def set_ini(debug_args: DebugArgs, **settings: Any) -> None:
    """Keep settings of the compiler by name."""
    vars(debug_args.ini).update(settings)


def set_default_ini(debug_args: DebugArgs, **settings: Any) -> None:
    """Keep settings of the compiler that are not set."""
    vars(debug_args.ini).update({k: v for k, v in settings.items() if k not in vars(debug_args.ini)})


def named_class_logger(name: Any) -> Any:
    """A decorator that gives a class a logger of its name, or of another one."""
    # Used bare, `@named_class_logger`, or with a name, `@named_class_logger("x")`.
    if not isinstance(name, type):
        return lambda kind: _with_logger(kind, str(name))
    return _with_logger(name, name.__name__)


def _with_logger(kind: Any, name: str) -> Any:
    kind.logger = logging.getLogger(f"cerebras.{name}")
    return kind


def get_level_name(level: int) -> str:
    """The name of a level of logging."""
    return {TRACE: "TRACE", VERBOSE: "VERBOSE"}.get(level, logging.getLevelName(level))
