"""One side of the walk: lists the public callables of `cerebras.pytorch`, and answers probes, each in a child process.

Run by `walk.py` in two interpreters, the one with the vendor's package and ours; so nothing of ours is imported
unless `--shim` says so.

    python walk_side.py [--shim] inventory            < nothing     > inventory as JSON
    python walk_side.py [--shim] answer               < probes      > answers, a line of JSON each
"""

import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import re
import select
import signal
import sys
import tempfile
import time
import warnings

PACKAGE = "cerebras.pytorch"
# Modules that open connections, start processes or belong to code generation.
LEFT_OUT = re.compile(
    r"\.(lib|appliance|appliance_utils|cluster_resolver|service_resolver|compare_log_dirs)\b|\._|\.pb\b"
)
SECONDS = 20
PREAMBLE = """
import io, os, re, sys, pathlib, pickle, copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch
import cerebras.pytorch.utils.tensorboard
def loader(n=3, rows=4):
    batches = [(torch.full((rows, 3), float(i)), torch.arange(rows) % 2) for i in range(n)]
    return cstorch.utils.data.DataLoader(lambda: batches)
class Lin(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
    def forward(self, x):
        return self.fc(x)
def adam():
    return cstorch.optim.Adam([nn.Parameter(torch.ones(2, 2))], lr=0.1)
"""


def modules():
    """The public modules of the package that can be imported, by name."""
    root = importlib.import_module(PACKAGE)
    below = pkgutil.walk_packages(root.__path__, PACKAGE + ".", onerror=lambda name: None)
    public = {}
    for name in (PACKAGE, *(info.name for info in below if not LEFT_OUT.search(info.name))):
        try:
            public[name] = importlib.import_module(name)
        except Exception:  # a module that the vendor's own wheel cannot import is no part of the surface
            continue
    return public


def described(value):
    """The kind of a callable, its name, signature and whether it has a docstring; of a class its methods too."""
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = None
    row = {"name": getattr(value, "__name__", None), "signature": signature, "doc": bool(inspect.getdoc(value))}
    if not isinstance(value, type):
        return row
    row["bases"] = [b.__name__ for b in value.__mro__[1:-1]]
    row["methods"] = {
        name: {"signature": _signature(member), "doc": bool(inspect.getdoc(member))}
        for name, member in inspect.getmembers(value)
        if callable(member) and not name.startswith("_") and not isinstance(member, type)
    }
    row["parameters"] = _parameters(value)
    return row


def _signature(member):
    try:
        return str(inspect.signature(member))
    except (TypeError, ValueError):
        return None


def _parameters(value):
    try:
        listed = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [(p.name, p.default is inspect.Parameter.empty) for p in listed if p.kind in named]


def inventory(asked=None):
    """Every public callable of the package's own, by module and name; of the names in `asked`, if they are given."""
    table = {}
    places = asked or dict.fromkeys(modules())
    for module_name, wanted in places.items():
        try:
            module = importlib.import_module(module_name)
        except ImportError as e:
            table[module_name] = str(e)
            continue
        row = table[module_name] = {}
        for name in wanted or sorted(set(dir(module))):
            if name.startswith("_"):
                continue
            try:
                value = getattr(module, name)
            except Exception as e:
                row[name] = f"{type(e).__name__}: {e}"[:200]
                continue
            own = str(getattr(value, "__module__", "")).startswith("cerebras.pytorch") or asked
            if callable(value) and own:
                row[name] = described(value) | {"parameters": _parameters(value)}
                row[name]["is_class"] = isinstance(value, type)
    return table


def preload():
    """Load what probes use once, before the children are made: names here are loaded when they are first asked for."""
    space = {}
    exec(PREAMBLE, space)
    for package in (space["cstorch"], space["torch"], space["nn"], space["F"]):
        for name in dir(package):
            with warnings.catch_warnings(), contextlib.suppress(Exception):
                warnings.simplefilter("ignore")
                for below in dir(getattr(package, name)) if package is space["cstorch"] else ():
                    getattr(getattr(package, name), below, None)


def answer(probe):
    """What a snippet gives in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(probe, write)
    os.close(write)
    text, deadline = b"", time.time() + SECONDS
    while time.time() < deadline:
        ready, _, _ = select.select([read], [], [], max(deadline - time.time(), 0))
        piece = os.read(read, 1 << 16) if ready else b""
        if not piece:
            break
        text += piece
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"raises": "process died", "message": ""}


def _child(probe, write):
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir(tempfile.mkdtemp())
    space = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(PREAMBLE, space)
            exec(probe, space)
            reply = {"returns": plain(space.get("result"), space["torch"])}
    except BaseException as e:
        reply = {"raises": type(e).__name__, "message": str(e)[:400]}
    with os.fdopen(write, "w") as out:
        json.dump(reply, out, default=str)
    os._exit(0)


def plain(x, torch, depth=0):
    """A value in a form that can be compared: tensors by shape, dtype and values, other objects by class."""
    if isinstance(x, torch.Tensor):
        try:
            values = x.tolist() if x.numel() <= 64 else "..."
        except Exception as e:
            values = type(e).__name__
        return f"{type(x).__name__}(shape={list(x.shape)}, dtype={x.dtype}, device={x.device}, {values})"
    if isinstance(x, dict) and depth < 4:
        return {str(k): plain(v, torch, depth + 1) for k, v in x.items()}
    if isinstance(x, list | tuple) and depth < 4:
        return [type(x).__name__, *(plain(v, torch, depth + 1) for v in x)]
    if isinstance(x, int | float | str | bool | type(None)):
        return x
    return f"<{type(x).__name__}>"


def main():
    if "--shim" in sys.argv:
        importlib.import_module("cstorch_compat").install()
    warnings.simplefilter("ignore")
    reply, sys.stdout = sys.stdout, sys.stderr
    given = json.loads(sys.stdin.read() or "null")
    if "inventory" in sys.argv:
        result = inventory(given)
    else:
        preload()
        for name, probe in given.items():  # a line each, so that what is there counts if the rest never comes
            print(json.dumps([name, answer(probe)]), file=reply, flush=True)
        return
    json.dump(result, reply, indent=0)


if __name__ == "__main__":
    main()
