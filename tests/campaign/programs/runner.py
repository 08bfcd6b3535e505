"""Runs programs of the campaign in this process: `python runner.py ours|real`.

A line of the input is a JSON object: "programs", a list of lists of statements, and "threads", the number of threads
that run them. The answer is a line too: for each program a list of [label, value]. A statement that fails gives
["error", number, classes, text], and the next one runs. At the end all variables are given. The file imports nothing of
this project unless it serves "ours": another interpreter reads it as well.
"""

# Packages under test are imported by `main`, which is told their kind.
# ruff: noqa: PLC0415

import builtins
import copy
import io
import json
import os
import pickle
import random
import signal
import sys
import threading
import warnings
from typing import Any

SECONDS = 20


def main() -> None:
    """Answer each line of the input until it ends."""
    if sys.argv[1] == "ours":
        import cstorch_compat

        cstorch_compat.install()
    import torch

    warnings.simplefilter("ignore")
    if sys.argv[1] == "real":
        torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, _too_slow)
    for line in sys.stdin:
        job = json.loads(line)
        signal.alarm(SECONDS * len(job["programs"]))
        answers.write(json.dumps(_outcomes(job)) + "\n")
        answers.flush()
        signal.alarm(0)


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"a program took more than {SECONDS} s")


def _outcomes(job: dict[str, Any]) -> list[Any]:
    programs, results = job["programs"], [None] * len(job["programs"])
    if job["threads"] <= 1:
        return [run(program) for program in programs]

    def work(first: int) -> None:
        for k in range(first, len(programs), job["threads"]):
            results[k] = run(programs[k], is_seeded=False)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(job["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run(program: list[str], is_seeded: bool = True) -> list[Any]:
    """Run the statements one after the other; return what they showed, and the variables at the end."""
    import numpy as np
    import torch

    shown: list[Any] = []

    def show(label: str, *values: Any) -> None:
        shown.append([label, [plain(v) for v in values]])

    def loaded(value: Any) -> Any:
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        return torch.load(file)

    def first(value: Any) -> Any:
        return value[0] if isinstance(value, tuple) else value

    def noisy(noise: int, factory: Any, *arguments: Any) -> Any:
        numbers = factory(*arguments)
        signs = random.Random(noise).choices((-1, 0, 1), k=numbers.numel())
        return numbers * (1 + 2e-7 * torch.tensor(signs).reshape(numbers.shape))

    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": np, "copy": copy, "pickle": pickle}
    names |= {"show": show, "loaded": loaded, "first": first, "noisy": noisy, "__name__": "__main__"}
    hidden = set(names)
    if is_seeded:
        torch.manual_seed(7)
    for number, statement in enumerate(program):
        try:
            exec(compile(statement, f"statement {number}", "exec"), names)
        except Exception as e:
            kinds = [k.__name__ for k in type(e).__mro__ if k.__module__ == "builtins"]
            shown.append(["error", number, kinds, f"{type(e).__name__}: {e}"[:300]])
    for name, value in list(names.items()):
        if name not in hidden and not isinstance(value, type) and not name.startswith("__"):
            try:
                shown.append([name, [plain(value)]])
            except Exception as e:
                shown.append([name, ["error", type(e).__name__, str(e)[:300]]])
    return shown


def plain(value: Any) -> Any:
    """Return a value as JSON: tensors as [type, shape, whether they require a gradient, numbers, the gradient]."""
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        numbers = value.detach()
        numbers = numbers.double() if numbers.dtype.is_floating_point else numbers
        gradient = value.grad if value.is_leaf else None
        row = [str(value.dtype), list(value.shape), value.requires_grad, numbers.reshape(-1).tolist()]
        return ["tensor", *row, None if gradient is None else plain(gradient)]
    if isinstance(value, np.ndarray):
        numbers = value.astype(np.float64) if value.dtype.kind == "f" else value
        return ["array", str(value.dtype), list(value.shape), numbers.reshape(-1).tolist()]
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
        return type(value).__name__
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, builtins.bool | int | float | str | None) else type(value).__name__


if __name__ == "__main__":
    main()
