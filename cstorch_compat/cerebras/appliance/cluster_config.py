"""Settings of the cluster job. They are stored, and none of them has an effect."""

import enum
import pathlib
from collections.abc import Mapping
from typing import Any

from cstorch_compat.run.compiler_settings import DebugArgs

DEFAULT_COMPILE_DIR = "cached_compile"
"""The name of the folder for compiled programs in the original package."""


class ExecutionStrategy(enum.IntEnum):
    """An enumeration of the modes in which the system can run a model."""

    ES_UNSPECIFIED = 0
    ES_PIPELINE = 1
    ES_WEIGHT_STREAMING = 2


def get_debug_args(value: Any = None, *_: Any, **__: Any) -> DebugArgs:
    """Return `value` if it is a `DebugArgs`, else a new empty `DebugArgs`.

    `value` may also be the path of a settings file, as in the original. The file is not read, since no setting has an
    effect.
    """
    return value if isinstance(value, DebugArgs) else DebugArgs()


def write_debug_args(debug_args: DebugArgs, path: Any) -> None:
    """Write the text form of `debug_args` to the file `path`, which is overwritten."""
    pathlib.Path(path).write_text(f"{debug_args}\n", encoding="utf-8")


def update_debug_args_from_keys(debug_args: DebugArgs, flat_dargs: Mapping[str, Any]) -> None:
    """Set attributes of `debug_args` by dotted path, such as `debug_usr.activation_host.num_workers`.

    `flat_dargs` maps each path to its value. Missing intermediate objects are created.
    """
    # DebugArgs creates a missing attribute on access, so every path is valid.
    for path, value in flat_dargs.items():
        *branches, leaf = path.split(".")
        node: Any = debug_args
        for name in branches:
            node = getattr(node, name)
        setattr(node, leaf, value)


def update_debug_args_with_job_labels(debug_args: DebugArgs, job_labels: list[str] | None = None) -> None:
    """Store each label of `job_labels`, given as "key=value", in `debug_args.debug_mgr.labels`. None stores nothing.

    The value is the text after the first "="; a label without "=" has the value "". An existing label is replaced.
    """
    for label in job_labels or ():
        key, _, value = label.partition("=")
        setattr(debug_args.debug_mgr.labels, key, value)


def update_debug_args_with_autogen_policy(debug_args: DebugArgs, policy: str | None = None) -> None:
    """Store `policy` as `debug_args.autogen_policy`.

    In the original it selects the operations for which the compiler generates kernels. Here kernels are generated for
    all operations without a library kernel.
    """
    debug_args.autogen_policy = policy


def set_ini(debug_args: DebugArgs, **settings: Any) -> None:
    """Store compiler settings by name in `debug_args.ini`, replacing existing values."""
    vars(debug_args.ini).update(settings)


def set_default_ini(debug_args: DebugArgs, **settings: Any) -> None:
    """Store compiler settings by name in `debug_args.ini`, unless a setting of that name exists."""
    vars(debug_args.ini).update({k: v for k, v in settings.items() if k not in vars(debug_args.ini)})
