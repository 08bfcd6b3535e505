"""Runs scripts in forks of this process, so that packages are imported once: `python server.py ours|real`.

A line of the input is a JSON object: "script" (a file), "args", the "folder" to be in, and the "seconds" that it may
take. The answer is a line too: what the script printed line by line, and the error that ended it. The file imports
nothing of this project unless it serves "ours": another interpreter reads it as well.
"""

import functools
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import traceback
import warnings

WARM = ("torch.nn.functional", "torch.utils.data", "cerebras.pytorch", "cerebras.pytorch.utils.tensorboard")
"""What scripts of the campaign import; a fork reads none of them again."""


def main():
    """Answer each line of the input until it ends."""
    names = WARM
    if sys.argv[1] == "ours":
        _begin_ours()
    else:
        names = (*WARM, "torch._dynamo")  # what the first optimizer imports
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(_outcome(json.loads(line))) + "\n")
        answers.flush()


def _begin_ours():
    importlib.import_module("cstorch_compat").install()
    _run_of_ours().options.mode = "streaming"
    # The faster of the two plans, and no other: the campaign looks at values and not at the wafer's figures.
    backend = importlib.import_module("wse_sim.backends.wafer_backend")
    backend.plan = functools.partial(backend.plan, other=False)


def _run_of_ours():
    return importlib.import_module("cstorch_compat.run.process").RUN


def _outcome(job):
    """Run one script in a fork; returns its lines and its error."""
    end, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        _run(job, tell)
    os.close(tell)
    with os.fdopen(end) as f:
        text = f.read()
    _, status = os.waitpid(child, 0)
    with open(os.path.join(job["folder"], "stdout"), errors="replace") as f:
        lines = f.read().splitlines()
    if not text:
        # The script was ended by a signal: too slow, or a crash.
        text = json.dumps({"type": f"status {status}", "line": 0, "text": ""})
    return {"lines": lines, "error": json.loads(text)}


def _run(job, tell):
    """Run the script in this process, write its error, and end the process."""
    os.chdir(job["folder"])
    # A script that starts processes leads a group of them.
    os.setpgid(0, 0)
    signal.alarm(job["seconds"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    error = None
    if job.get("half"):
        _run_of_ours().options.half = importlib.import_module("lazytensor.core.dtype").dtype_by_name(job["half"])
    try:
        sys.argv = [job["script"], *job["args"]]
        runpy.run_path(job["script"], run_name="__main__")
    except BaseException as e:
        traceback.print_exc()
        lines = [n for frame, n in traceback.walk_tb(e.__traceback__) if frame.f_code.co_filename == job["script"]]
        kinds = [k.__name__ for k in type(e).__mro__[:-2]]
        error = {"type": kinds[0], "kinds": kinds, "line": lines[-1] if lines else 0, "text": str(e)[:2000]}
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(tell, "w") as f:
        json.dump(error, f)
    os._exit(0)


if __name__ == "__main__":
    main()
