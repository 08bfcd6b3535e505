"""Loggers of the package, with two levels that Python's `logging` does not have, and loggers for classes."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

TRACE, VERBOSE = 5, 15
"""Logging levels of the package: TRACE (5) is below DEBUG (10), and VERBOSE (15) is between DEBUG and INFO (20)."""
NOTSET, DEBUG, INFO, WARNING, ERROR, CRITICAL, FATAL = 0, 10, 20, 30, 40, 50, 50
ROOTNAME, WSC_ROOTNAME = "cerebras", "cerebras.wsc"
JOB_MODES = ("compile", "execute")
TASK_ROLES = ("crd", "wrk", "wgt", "act", "cmd", "br", "chf")
"""The modes of cluster jobs, and the roles of their tasks, for which a logging level can be set."""

for _name, _level in (("TRACE", TRACE), ("VERBOSE", VERBOSE)):
    logging.addLevelName(_level, _name)


class _Logger(logging.Logger):
    """A logger with a method for each of the package's two extra levels."""

    def trace(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message at the level TRACE. The arguments are those of `logging.Logger.debug`."""
        # The stack level is 2, so that the log record names the line of the caller.
        self.log(TRACE, msg, *args, **{"stacklevel": 2, **kwargs})

    def verbose(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message at the level VERBOSE. The arguments are those of `logging.Logger.debug`."""
        self.log(VERBOSE, msg, *args, **{"stacklevel": 2, **kwargs})


def _make_logger(name: str) -> Any:
    known = logging.getLogger(name)
    # Change the class in place, because other code may already hold the logger of this name.
    if type(known) is logging.Logger:
        known.__class__ = _Logger
    return known


logger, wsc_logger = _make_logger(ROOTNAME), _make_logger(WSC_ROOTNAME)


class ClassLogger:
    """A base class for classes with a class attribute `logger`, which `named_class_logger` sets."""

    logger: ClassVar[Any] = logger

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)


def named_class_logger(cls_or_namespace: Any = None) -> Any:
    """Set the class attribute `logger` of the decorated class to a logger.

    Use it as `@named_class_logger` or `@named_class_logger("name")`. The logger's name is "cerebras." followed by the
    given name, or else by the class's module and qualified name.
    """
    if isinstance(cls_or_namespace, type):
        return _make_decorator(None)(cls_or_namespace)
    return _make_decorator(cls_or_namespace)


def _make_decorator(namespace: str | None) -> Callable[[Any], Any]:
    def decorate(kind: Any) -> Any:
        kind.logger = _make_logger(f"{ROOTNAME}.{namespace or f'{kind.__module__}.{kind.__qualname__}'}")
        return kind

    return decorate


def get_level_name(level: int | str) -> int | str:
    """Return the name of a logging level given by number, or the number of a level given by name.

    Names are case-insensitive. For an unknown level the result is the text "Level ...", as in `logging.getLevelName`.
    """
    name: int | str = logging.getLevelName(level.upper() if isinstance(level, str) else level)
    return name


@dataclass(frozen=True)
class WscLogSetting:
    """The logging level of a part of the cluster.

    - `level`: the level as a number.
    - `tag`: the logger's name below `cerebras.wsc`.
    - `mode`: the job mode the level applies to, or None for all.
    - `role`: the task role the level applies to, or None for all.
    """

    level: int
    tag: str | None = None
    mode: str | None = None
    role: str | None = None

    @staticmethod
    def allowed_modes() -> list[str]:
        """Return the job modes that `mode` can name."""
        return list(JOB_MODES)

    @staticmethod
    def allowed_roles() -> list[str]:
        """Return the task roles that `role` can name."""
        return list(TASK_ROLES)


def collect_wsc_log_settings() -> list[WscLogSetting]:
    """Return one setting for each logger below `cerebras.wsc` whose level was set, sorted by name.

    The setting's `tag` is the logger's name without the prefix "cerebras.wsc.". Its `mode` and `role` are None.
    """
    nodes = sorted(logging.root.manager.loggerDict.items())
    return [
        WscLogSetting(node.level, name.removeprefix(f"{WSC_ROOTNAME}."))
        for name, node in nodes
        if isinstance(node, logging.Logger) and node.level != NOTSET and name.startswith(f"{WSC_ROOTNAME}.")
    ]
