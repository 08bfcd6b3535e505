"""Settings of the cluster, without effect here."""

import enum
import pathlib
from collections.abc import Mapping
from typing import Any

from cstorch_compat.run.compiler_settings import DebugArgs

DEFAULT_COMPILE_DIR = "cached_compile"


class ExecutionStrategy(enum.IntEnum):
    """How a model is executed."""

    ES_UNSPECIFIED = 0
    ES_PIPELINE = 1
    ES_WEIGHT_STREAMING = 2


def get_debug_args(value: Any = None, *_: Any, **__: Any) -> DebugArgs:
    """Settings for the compiler: those given, or none; a file is not read, since they have no effect."""
    return value if isinstance(value, DebugArgs) else DebugArgs()


def write_debug_args(debug_args: DebugArgs, path: Any) -> None:
    """Write the settings to a text file, for the record."""
    pathlib.Path(path).write_text(f"{debug_args}\n", encoding="utf-8")


def update_debug_args_from_keys(debug_args: DebugArgs, flat_dargs: Mapping[str, Any]) -> None:
    """Keep settings that are named by their whole path, such as `debug_usr.activation_host.num_workers`."""
    # The tree makes its branches as they are asked for, so a path need not be there.
    for path, value in flat_dargs.items():
        *branches, leaf = path.split(".")
        node: Any = debug_args
        for name in branches:
            node = getattr(node, name)
        setattr(node, leaf, value)


def update_debug_args_with_job_labels(debug_args: DebugArgs, job_labels: list[str] | None = None) -> None:
    """Keep the labels of the job, which are given as key=value."""
    for label in job_labels or ():
        key, _, value = label.partition("=")
        setattr(debug_args.debug_mgr.labels, key, value)


def update_debug_args_with_autogen_policy(debug_args: DebugArgs, policy: str | None = None) -> None:
    """Keep which left-over operations the compiler should generate; here it generates all of them."""
    debug_args.autogen_policy = policy


def set_ini(debug_args: DebugArgs, **settings: Any) -> None:
    """Keep settings of the compiler by name."""
    vars(debug_args.ini).update(settings)


def set_default_ini(debug_args: DebugArgs, **settings: Any) -> None:
    """Keep settings of the compiler that are not set."""
    vars(debug_args.ini).update({k: v for k, v in settings.items() if k not in vars(debug_args.ini)})
