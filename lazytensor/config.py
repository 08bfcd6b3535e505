"""Settings of the package, read once from environment variables; `override` changes them temporarily.

LT_DEBUG=LEVEL  Print the results of the compiler to standard error. LEVEL is 0 (nothing, the default) to 4, and each
                level includes the lower ones: 1 prints the recorded graph; 2 each rewrite, and the graph after each
                pass; 3 kernels, loop nests with their source, and the program; 4 the location of each buffer.
LT_DUMP=FOLDER  Write the output of all debug levels to files in FOLDER, independently of LT_DEBUG.
LT_CHECK=1      Verify the result of each compiler pass.
LT_JIT=0        Run loop nests with NumPy instead of compiled code.
LT_THREADS=N    Use N threads for a step, unless the script sets another number with torch.set_num_threads(). The
                default is the number of cores that the process may use.
LT_CACHE=FOLDER
                Store compiled kernels in a subfolder of FOLDER for each user. The default is ~/.cache/lazywafer.
LT_TRACEBACK=full
                Show the internal frames of tracebacks, which are hidden by default.
LT_INPUT_TIMEOUT=SECONDS
                End a run with an error if an input worker of the wafer has not answered for this number of seconds.
                The default is 1800; 0 means no limit. For a DataLoader, set timeout= instead.
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
