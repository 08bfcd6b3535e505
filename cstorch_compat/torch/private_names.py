"""Private names of PyTorch that libraries use, with the behaviour of a CPU build."""

from typing import Any


def _log_api_usage_once(event: str) -> None:
    """Do nothing."""


def _get_tracing_state() -> None:
    """Return None: no exporter is tracing."""
    return


def _is_tracing() -> bool:
    """Return False: no exporter is tracing."""
    return False


def is_dynamo_supported() -> bool:
    """Return False: steps are traced in another way."""
    return False


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Do nothing. Shapes are static."""


mark_static = mark_static_address = maybe_mark_dynamic = mark_dynamic


def graph_break(msg: str = "") -> None:
    """Do nothing. There is no graph of Python code."""


cuda, hip, rocm, xpu, debug, git_version = None, None, None, None, False, "unknown"
