"""Lines of a rendered script, and what a loop consists of."""

from tests.campaign.loops.drawing import Loop

INDENT = "    "


def indented(lines: list[str], depth: int = 1) -> list[str]:
    """Return lines one or more levels deeper; empty ones stay empty."""
    return [INDENT * depth + line if line else line for line in lines]


def has_training(full: Loop) -> bool:
    """Tell whether one of the executions trains."""
    return any(run["kind"] == "train" for run in full["runs"])


def is_regression(full: Loop) -> bool:
    """Tell whether the loss compares the result with numbers, and not with the index of a class."""
    return full["loss"] in ("mse", "MSELoss", "bce", "mean")
