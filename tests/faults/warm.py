"""A process that has imported everything and runs scripts in forks of itself: a case then costs what its script does.

`python -m tests.faults.warm NAME [wafer]`; NAME stands before what the forks create in shared memory. Each line that
comes is a script and a folder, and the answers are the process that runs it there and, later, how it ended, as
`os.waitpid` says it.
"""

import contextlib
import gc
import io
import json
import os
import pathlib
import signal
import sys
import tempfile

import numba  # noqa: F401 - what a run loads late, and each fork would load anew

from cstorch_compat.__main__ import main
from cstorch_compat.run import signals
from cstorch_compat.run.process import RUN
from tests.faults.owned import own
from tests.faults.run_scripts import WAFER


def serve() -> int:
    """Answer until nobody asks any more; in a fork, what `lazywafer run` gives."""
    own(sys.argv[1])
    if "wafer" in sys.argv[2:]:
        _price()
    # What is there already is looked at by no fork's collector, which would copy all of it.
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    while request := sys.stdin.readline():
        script, folder = json.loads(request)
        child = os.fork()
        if not child:
            # Through the frames of this function, and no block around it: the fork ends as an interpreter does.
            return _as_command(script, folder)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)
    return 0


def _price() -> None:
    """Plan the wafer's script once: a process keeps what its kernels cost, and so do its forks."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        script = pathlib.Path(folder) / "train.py"
        script.write_text(WAFER)
        main(["plan", str(script)])
    RUN.reset()


def _as_command(script: str, folder: str) -> int:
    os.setsid()
    os.chdir(folder)
    for number, name in enumerate((os.devnull, "out", "err")):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    # Even where whoever runs the tests ignores them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ending in signals.ENDING_SIGNALS:
        signal.signal(ending, signal.SIG_DFL)
    return main(["run", script])


if __name__ == "__main__":
    sys.exit(serve())
