"""The switches of the house, read once from the environment; `override` changes them for a while.

LT_DEBUG=0..4   print while compiling, each level with those below: 1 the graph as it was recorded, 2 each rewrite and
                the graph after each pass, 3 kernels, loop nests with their source, and the program, 4 placement
LT_CHECK=1      verify what each pass gives before the next one runs (tests do)
LT_DUMP=dir     write what all levels would print to files in `dir`, whatever LT_DEBUG says
LT_JIT=0        run loop nests with NumPy instead of compiling them
LT_TRACEBACK=full
                show the frames of the house in tracebacks too, which are left out
LT_THREADS=n    how many threads share a kernel's parts, by default the cores that the process may use
LT_INPUT_TIMEOUT=n
                after how many seconds an input worker of the wafer that sends nothing is given up, by default 1800;
                0 waits without end, as a DataLoader does unless it is given timeout=
LT_CACHE=dir    where compiled kernels are kept, in a folder of each user; by default ~/.cache/lazywafer
"""

import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Switches:
    """One setting of every switch."""

    debug: int = 0
    check: bool = False
    dump: str = ""
    jit: bool = True
    cache: str = ""
    threads: int = 0
    input_timeout: int = 1800
    whole_tracebacks: bool = False

    @property
    def cache_folder(self) -> pathlib.Path:
        """Where compiled kernels lie; it may not exist yet."""
        if self.cache:
            return pathlib.Path(self.cache)
        try:
            return pathlib.Path.home() / ".cache" / "lazywafer"
        except RuntimeError:  # no HOME, and no line in the list of users
            return pathlib.Path(tempfile.gettempdir()) / "lazywafer"


def read_environment(environment: Mapping[str, str]) -> Switches:
    """The switches that these environment variables ask for; one that is no number counts as its default."""

    def number(name: str, default: int) -> int:
        text = environment.get(name, "")
        # A misspelt switch is no reason to stop a training run.
        return int(text) if text.isdigit() else default

    return Switches(
        debug=number("LT_DEBUG", 0),
        check=number("LT_CHECK", 0) != 0,
        dump=environment.get("LT_DUMP", ""),
        jit=number("LT_JIT", 1) != 0,
        cache=environment.get("LT_CACHE", ""),
        threads=number("LT_THREADS", 0),
        input_timeout=number("LT_INPUT_TIMEOUT", 1800),
        whole_tracebacks=environment.get("LT_TRACEBACK", "") == "full",
    )


# Read once: a switch that changes while a graph is compiled would give half of each.
_current = read_environment(os.environ)


def current() -> Switches:
    """The switches in force."""
    return _current


@contextmanager
def override(**changes: Any) -> Iterator[Switches]:
    """Change switches inside a `with` block: `with override(jit=False): ...`."""
    global _current
    before = _current
    _current = replace(before, **changes)
    try:
        yield _current
    finally:
        _current = before
