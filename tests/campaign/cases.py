"""One case in a process of its own: what came of it, in one word."""

import os
import pathlib
import random
import resource
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from cstorch_compat.files import trial_process
from lazytensor.errors import LazyError
from tests.campaign.corpora import CORPORA, Corpus, fingerprint
from tests.campaign.mutators import changed
from tests.processors import family_seconds

PROCESSOR_SECONDS = 10.0
"""What a case may compute. Not by the clock: beside other work ten seconds of it are two of a processor, or none."""
SECONDS = 60.0
"""What a case may take by the clock, for what waits and computes nothing."""
LOOK_SECONDS = 0.5
MEMORY_BYTES = 3 << 30
OUTCOMES = ("clean", "same", "other data", "foreign exception", "crash", "hang", "memory", "code run")
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "ctypes.dlopen")
"""What no reader of data has to do; `open` for writing and `exec` are looked at by themselves."""


@dataclass(frozen=True)
class Ground:
    """The good files of a campaign, what they hold, and the folder where cases happen."""

    folder: pathlib.Path
    files: dict[str, bytes]
    values: dict[tuple[str, int], str]

    @classmethod
    def prepared(cls, folder: pathlib.Path) -> "Ground":
        """Good files of every format, each read once by each reader."""
        files, values = {}, {}
        for corpus in CORPORA:
            path = folder / "good"
            corpus.write(path)
            files[corpus.name] = path.read_bytes()
            for k, read in enumerate(corpus.readers):
                values[corpus.name, k] = fingerprint(read(path))
            path.unlink()
        return cls(folder, files, values)

    def outcome(self, seed: int, case: int) -> tuple[str, str, str]:
        """The format of a case, its outcome, and what was seen of it."""
        draw = random.Random(f"{seed} {case}")
        corpus = draw.choice(CORPORA)
        reader = draw.randrange(len(corpus.readers))
        path, canary = self.folder / "case", self.folder / "canary"
        path.write_bytes(changed(draw, corpus.name, self.files[corpus.name], str(canary)))
        outcome, seen = _in_child(lambda: _read(corpus, reader, path, self.values[corpus.name, reader]))
        if canary.exists():
            canary.unlink()
            outcome = "code run"
        return corpus.name, outcome, seen


def _read(corpus: Corpus, reader: int, path: pathlib.Path, good: str) -> tuple[str, str]:
    broken: list[str] = []
    sys.addaudithook(lambda event, args: _watch(event, args, broken))
    try:
        value = fingerprint(corpus.readers[reader](path))
    except MemoryError as e:
        return ("clean" if isinstance(e, LazyError) else "memory"), repr(e)
    except LazyError as e:
        outcome, seen = "clean", str(e)
    except BaseException as e:
        outcome, seen = "foreign exception", f"{type(e).__name__}: {e}"
    else:
        outcome, seen = ("same" if value == good else "other data"), ""
    return ("code run", broken[0]) if broken else (outcome, seen)


def _watch(event: str, args: tuple[Any, ...], broken: list[str]) -> None:
    # Who reads a file of strangers in a process first may start that one; what it does there is not seen here.
    if event == "os.fork" and sys._getframe(2).f_code.co_filename == trial_process.__file__:
        return
    is_write = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
    if event in STARTS or is_write:
        broken.append(f"{event} {args[0]!r}")


def _in_child(action: Any) -> tuple[str, str]:
    """What an action gives in a process that is forked for it."""
    into, out = os.pipe()
    child = os.fork()
    if not child:
        os.close(into)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        devnull = os.open(os.devnull, os.O_RDWR)
        os.dup2(devnull, 2)
        try:
            outcome, seen = action()
            os.write(out, f"{outcome}\n{seen[:500]}".encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(out)
    return _ended(child, into)


def _ended(child: int, into: int) -> tuple[str, str]:
    until = time.monotonic() + SECONDS
    said = b""
    with open(into, "rb", buffering=0) as pipe:
        while True:
            if select.select([pipe], [], [], LOOK_SECONDS)[0]:
                piece = pipe.read(4096)
                if not piece:
                    break
                said += piece
            elif (computed := family_seconds(child)) > PROCESSOR_SECONDS or time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "hang", f"{computed} s of a processor"
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "crash", signal.Signals(os.WTERMSIG(status)).name
    outcome, _, seen = said.decode().partition("\n")
    return (outcome, seen) if outcome else ("crash", f"status {status}")
