"""Options of the command line that apply to the whole process."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lazytensor.core.dtype import DType, float16


@dataclass
class RunOptions:
    """The options of `lazywafer run` and `lazywafer check` for the whole process.

    machine, mode: the simulated machine, and the execution mode ("auto", "pipelined" or "streaming")
    progress: whether loops show their progress
    half: the 16-bit type of mixed precision
    closure_lag: number of steps by which closures are delayed
    strict: whether state that is first made inside a step is an error
    backend: replaces the backend type of the script if not empty
    steps: maximum number of steps of a loop; 0 for no limit
    keeps_compilations: whether compilations are kept for the HTML page
    session: makes the sessions of a backend, instead of the backend itself
    """

    machine: str = "wse2"
    mode: str = "auto"
    progress: bool = False
    half: DType = float16
    closure_lag: int = 0
    strict: bool = False
    backend: str = ""
    steps: int = 0
    keeps_compilations: bool = False
    session: Callable[[Any], Any] | None = None
