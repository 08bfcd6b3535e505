"""Loggers of the package: two levels more than Python has, and classes with a logger of their own."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

TRACE, VERBOSE = 5, 15
"""Levels of logging below and above DEBUG."""
NOTSET, DEBUG, INFO, WARNING, ERROR, CRITICAL, FATAL = 0, 10, 20, 30, 40, 50, 50
ROOTNAME, WSC_ROOTNAME = "cerebras", "cerebras.wsc"
JOB_MODES = ("compile", "execute")
TASK_ROLES = ("crd", "wrk", "wgt", "act", "cmd", "br", "chf")
"""Kinds of jobs of the cluster, and of the tasks in them, whose levels of logging can be set."""

for _name, _level in (("TRACE", TRACE), ("VERBOSE", VERBOSE)):
    logging.addLevelName(_level, _name)


class _Logger(logging.Logger):
    """A logger with a method for each level of the package."""

    def trace(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at the level TRACE."""
        # One frame more than Python's own methods, so that the record names the caller's line.
        self.log(TRACE, msg, *args, **{"stacklevel": 2, **kwargs})

    def verbose(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at the level VERBOSE."""
        self.log(VERBOSE, msg, *args, **{"stacklevel": 2, **kwargs})


def _make_logger(name: str) -> Any:
    known = logging.getLogger(name)
    # Changed in place: somebody may hold a logger of this name already, and it stays the one in the tree.
    if type(known) is logging.Logger:
        known.__class__ = _Logger
    return known


logger, wsc_logger = _make_logger(ROOTNAME), _make_logger(WSC_ROOTNAME)


class ClassLogger:
    """A class that `named_class_logger` gives a logger."""

    logger: ClassVar[Any] = logger

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)


def named_class_logger(cls_or_namespace: Any = None) -> Any:
    """A decorator that gives a class a logger of its name, or of the one given."""
    # Used bare, `@named_class_logger`, or with a name, `@named_class_logger("x")`.
    if isinstance(cls_or_namespace, type):
        return _make_decorator(None)(cls_or_namespace)
    return _make_decorator(cls_or_namespace)


def _make_decorator(namespace: str | None) -> Callable[[Any], Any]:
    def decorate(kind: Any) -> Any:
        kind.logger = _make_logger(f"{ROOTNAME}.{namespace or f'{kind.__module__}.{kind.__qualname__}'}")
        return kind

    return decorate


def get_level_name(level: int | str) -> int | str:
    """The name of a level of logging given by number; of one given by name, in any case, the number."""
    name: int | str = logging.getLevelName(level.upper() if isinstance(level, str) else level)
    return name


@dataclass(frozen=True)
class WscLogSetting:
    """The level of a part of the cluster, which is chosen by tag, kind of job and task."""

    level: int
    tag: str | None = None
    mode: str | None = None
    role: str | None = None

    @staticmethod
    def allowed_modes() -> list[str]:
        """Kinds of jobs."""
        return list(JOB_MODES)

    @staticmethod
    def allowed_roles() -> list[str]:
        """Kinds of tasks."""
        return list(TASK_ROLES)


def collect_wsc_log_settings() -> list[WscLogSetting]:
    """The levels that were set on loggers below `cerebras.wsc`, by the rest of their names."""
    nodes = sorted(logging.root.manager.loggerDict.items())
    return [
        WscLogSetting(node.level, name.removeprefix(f"{WSC_ROOTNAME}."))
        for name, node in nodes
        if isinstance(node, logging.Logger) and node.level != NOTSET and name.startswith(f"{WSC_ROOTNAME}.")
    ]
