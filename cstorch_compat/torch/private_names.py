"""The few private names of PyTorch that libraries ask for, with what a build for CPUs answers."""

from typing import Any


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted."""


def _get_tracing_state() -> None:
    """None: no exporter looks on."""
    return


def _is_tracing() -> bool:
    """False: no exporter looks on."""
    return False


def is_dynamo_supported() -> bool:
    """False: steps are traced in another way."""
    return False


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Shapes are what they are."""


mark_static = mark_static_address = maybe_mark_dynamic = mark_dynamic


def graph_break(msg: str = "") -> None:
    """There is no graph of Python code to break."""


cuda, hip, rocm, xpu, debug, git_version = None, None, None, None, False, "unknown"
