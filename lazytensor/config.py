"""Settings of the package, read once from the environment; `override` changes them temporarily.

LT_DEBUG=0..4   print while compiling; each level includes the lower ones: 1 the recorded graph, 2 each rewrite and the
                graph after each pass, 3 kernels, loop nests with their source, and the program, 4 placement
LT_CHECK=1      verify the result of each compiler pass (tests do)
LT_DUMP=dir     write the output of all debug levels to files in `dir`, whatever LT_DEBUG is
LT_JIT=0        run loop nests with NumPy instead of compiling them
LT_TRACEBACK=full
                show internal frames in tracebacks, which are hidden by default
LT_THREADS=n    number of threads for a kernel, by default the number of cores that the process may use
LT_INPUT_TIMEOUT=n
                seconds after which a silent input worker of the wafer is given up, by default 1800; 0 means no limit,
                as for a DataLoader without timeout=
LT_CACHE=dir    folder for compiled kernels, with a subfolder for each user; by default ~/.cache/lazywafer
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
    """The value of every setting; see the module for their meaning.

    - `debug`, `check`, `dump`, `jit`: LT_DEBUG, LT_CHECK, LT_DUMP, LT_JIT.
    - `cache`: LT_CACHE; "" means the default folder.
    - `threads`: LT_THREADS; 0 means the number of available cores.
    - `input_timeout`: LT_INPUT_TIMEOUT, in seconds.
    - `whole_tracebacks`: whether LT_TRACEBACK is "full".
    """

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
        """The folder for compiled kernels, which may not exist yet."""
        if self.cache:
            return pathlib.Path(self.cache)
        try:
            return pathlib.Path.home() / ".cache" / "lazywafer"
        except RuntimeError:  # HOME is not set, and the user has no entry in the password database
            return pathlib.Path(tempfile.gettempdir()) / "lazywafer"


def read_environment(environment: Mapping[str, str]) -> Switches:
    """Return the settings from environment variables. A number that is not a decimal integer counts as its default."""

    def number(name: str, default: int) -> int:
        text = environment.get(name, "")
        # An invalid setting should not stop a training run.
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


# Read once, so that settings do not change while a graph is compiled.
_current = read_environment(os.environ)


def current() -> Switches:
    """Return the current settings."""
    return _current


@contextmanager
def override(**changes: Any) -> Iterator[Switches]:
    """Change settings inside a `with` block: `with override(jit=False): ...`."""
    global _current
    before = _current
    _current = replace(before, **changes)
    try:
        yield _current
    finally:
        _current = before
