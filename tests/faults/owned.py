"""Names of shared memory that say whose it is: a campaign looks at what its own runs leave, whoever runs beside it.

`python -m tests.faults.owned NAME run train.py` is `python -m cstorch_compat run train.py` with such names.
"""

import multiprocessing
import os
import pathlib
import runpy
import secrets
import sys
from multiprocessing import shared_memory

SHARED = pathlib.Path("/dev/shm")
"""Where Linux shows it; every process of the machine sees all of it."""


def owner_name() -> str:
    """A name that no other campaign has."""
    return f"f{secrets.token_hex(3)}"


def own(name: str) -> None:
    """Let this process and its children put `name` before what they create: memory, and semaphores."""
    # Python has no other way to name what the processes behind a script create.
    shared_memory._SHM_NAME_PREFIX = f"/{name}_"  # type: ignore[attr-defined]
    multiprocessing.current_process()._config["semprefix"] = f"/{name}"  # type: ignore[attr-defined]


def pieces(name: str) -> set[str]:
    """What there is of it. A piece may be there without a process that uses it."""
    return {piece for piece in os.listdir(SHARED) if name in piece}


if __name__ == "__main__":
    own(sys.argv.pop(1))
    runpy.run_module("cstorch_compat", run_name="__main__", alter_sys=True)
