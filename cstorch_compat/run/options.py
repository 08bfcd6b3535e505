"""What the command line decides for the whole process, before the script says anything."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lazytensor.core.dtype import DType, float16


@dataclass
class RunOptions:
    """What `lazywafer run` and `lazywafer check` decide for the whole process."""

    machine: str = "wse2"
    mode: str = "auto"
    progress: bool = False
    half: DType = float16
    closure_lag: int = 0
    strict: bool = False
    backend: str = ""  # takes the place of what the script asks for
    steps: int = 0  # most steps of a loop; 0 for as many as the script asks for
    keeps_compilations: bool = False  # for the page, which shows how each program came about
    session: Callable[[Any], Any] | None = None  # makes the sessions of a backend, instead of the backend itself
