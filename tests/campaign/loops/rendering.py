"""Writes a drawn loop as the script that a user would write.

The script takes the backend as its argument: CPU, CSX, or V for CSX with validate_only. It prints JSON lists of a label
and values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.campaign.loops.drawing import CLASSES, SIMPLEST, WIDTH, Loop
from tests.campaign.loops.model_script import model_text
from tests.campaign.loops.optimizer_script import metric_lines, optimizer_text, update_lines
from tests.campaign.loops.script_lines import INDENT, has_training, indented, is_regression

HEAD = """
import glob
import json
import sys

import torch
import torch.nn.functional as F

import cerebras.pytorch as cstorch


def plain(value):
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def show(label, *values):
    print(json.dumps([label, *map(plain, values)]), flush=True)


def ramp(*shape, start=0):
    count = 1
    for extent in shape:
        count *= extent
    return ((torch.arange(count) * 37 + 17 * start + {seed}) % 101 / 50 - 1).reshape(shape)
"""

BACKEND = """
backend = cstorch.backend("CSX", validate_only=True) if sys.argv[1] == "V" else cstorch.backend(sys.argv[1])
"""

FILES = """
for name in sorted(glob.glob("*.mdl")):
    show("file", name, cstorch.load(name))
"""


SUMMARIES = """
writer.close()
reader = SummaryReader("summaries")
show("scalars", sorted(reader.scalar_names()), sorted(reader.tensor_names()))
for name in reader.scalar_names():
    show("scalar", name, [[event.step, event.value] for event in reader.read_scalar(name)])
for name in reader.tensor_names():
    show("tensor", name, sorted([step, found.tensor] for step, found in reader.read_tensor(name).items()))
"""


def script(loop: Loop, noise: float = 0.0) -> str:
    """Return the text of a loop's script. With `noise`, each initial weight is off by that share."""
    full = {**SIMPLEST, **loop}
    parts = [
        _head(full),
        model_text(full, noise),
        optimizer_text(full),
        _data(full),
        _traced_functions(full),
        _closures(full),
        *[_statement_outside(full, what) for what in full["before"]],
        *_runs(full),
        *[_statement_outside(full, what) for what in full["after"]],
    ]
    if full["saves"] or "save" in full["before"] + full["after"]:
        parts.append(FILES)
    if full["summaries"]:
        parts.append(SUMMARIES)
    return "\n".join(part.strip("\n") + "\n" for part in parts if part)


def _head(full: Loop) -> str:
    settings = []
    if full["half"]:
        settings.append(f'cstorch.amp.set_half_dtype("{full["half"]}")')
    if full["level"] is not None:
        settings.append(f"cstorch.backends.csx.precision.optimization_level = {full['level']}")
    if full["retrace"]:
        settings.append("cstorch.backends.csx.debug.retrace_every_iteration = True")
    if full["init"]:
        settings.append("cstorch.amp.init()")
    tensorboard = "from cerebras.pytorch.utils.tensorboard import SummaryReader, SummaryWriter"
    head = HEAD.replace("{seed}", str(full.get("seed", 0))).strip("\n")
    if full["summaries"]:
        head = head.replace("import cerebras.pytorch as cstorch", f"import cerebras.pytorch as cstorch\n{tensorboard}")
    return "\n".join([head, "", BACKEND.strip(), *settings, f"torch.manual_seed({full.get('seed', 0)})"])


# --- data ---


def _data(full: Loop) -> str:
    rows, inputs = full["rows"], full["inputs"]
    if inputs == "image":
        x = f"ramp({rows}, 1, 3, 3, start=i)"
    elif inputs in ("int64", "int32"):
        x = f"((ramp({rows}, 4, start=i) + 1) * 5).to(torch.{inputs})"
    else:
        x = f"ramp({rows}, {WIDTH}, start=i)" + ("" if inputs == "float32" else f".to(torch.{inputs})")
    if is_regression(full):
        y = f"ramp({rows}, {CLASSES}, start=i + 5)" + (".gt(0).float()" if full["loss"] == "bce" else "")
    else:
        y = f"(torch.arange({rows}) * 2 + i) % {CLASSES}"
        y = f"({y}).to(torch.int32)" if full["labels"] == "int32" else y
    made = [f"x = {x}", f"y = {y}"]
    whole = {"tuple": "x, y", "list": "[x, y]", "dict": '{"x": x, "y": y}'}[full["form"]]
    lines = ["def batch(i):", *indented([*made, f"return {whole}"]), "", ""]
    return "\n".join([*lines, *_loader(full), "loader = cstorch.utils.data.DataLoader(input_fn)"])


def _loader(full: Loop) -> list[str]:
    count = full["batches"]
    if full["loader"] == "list":
        return ["def input_fn():", f"{INDENT}return [batch(i) for i in range({count})]", "", ""]
    if full["loader"] == "generator":
        return ["def input_fn():", f"{INDENT}for i in range({count}):", f"{INDENT * 2}yield batch(i)", "", ""]
    base = "IterableDataset" if full["loader"] == "iterable" else "Dataset"
    lines = [f"class Batches(torch.utils.data.{base}):"]
    if base == "Dataset":
        lines += [f"{INDENT}def __len__(self):", f"{INDENT * 2}return {count}", ""]
        lines += [f"{INDENT}def __getitem__(self, i):", f"{INDENT * 2}return batch(i)", "", ""]
    else:
        lines += [f"{INDENT}def __iter__(self):", f"{INDENT * 2}return (batch(i) for i in range({count}))", "", ""]
    lines += ["def input_fn():"]
    workers = f", num_workers={full['workers']}" if full["workers"] else ""
    return [*lines, f"{INDENT}return torch.utils.data.DataLoader(Batches(), batch_size=None{workers})", "", ""]


# --- traced functions and closures ---

LOSS_TEXTS: Mapping[str, str] = {
    "cross_entropy": "F.cross_entropy(out, y)",
    "CrossEntropyLoss": "cstorch.nn.CrossEntropyLoss()(out, y)",
    "mse": "F.mse_loss(out, y)",
    "MSELoss": "torch.nn.MSELoss()(out, y)",
    "bce": "F.binary_cross_entropy_with_logits(out, y)",
    "mean": "(out * y).mean()",
}


def _unpacked(full: Loop) -> list[str]:
    lines = ['x, y = batch["x"], batch["y"]'] if full["form"] == "dict" else ["x, y = batch"]
    return [*lines, "x = x.float()"] if full["inputs"] == "float16" else lines


def _returned(full: Loop, kind: str) -> list[str]:
    has_rate = kind == "train" and full["schedule"]
    known = {"loss": "loss", "out": "out", "rate": "schedule.get_last_lr()" if has_rate else "None"}
    return [known[name] for name in full["returns"]]


def _traced_functions(full: Loop) -> str:
    lines = []
    for kind in sorted({run["kind"] for run in full["runs"]}):
        body = [*_unpacked(full), "out = compiled(x)", f"loss = {LOSS_TEXTS[full['loss']]}"]
        if kind == "train":
            body = ["model.train()", *body, *update_lines(full)]
            head = ["@cstorch.trace", "def train(batch):"]
        else:
            body = ["model.eval()", *body]
            head = ["@cstorch.trace", "@torch.no_grad()", "def evaluate(batch):"]
        body += metric_lines(full)
        for n, closure in enumerate(full["closures"]):
            if closure["is_inside"]:
                body.append(f"closure{n}({_taken(full, closure, kind)})")
        lines += [*head, *indented([*body, f"return {', '.join(_returned(full, kind))}"]), "", ""]
    return "\n".join(lines)


def _value(full: Loop, what: str, kind: str, is_inside: bool) -> str | None:
    """Return the expression of something that a closure takes or a script reads; None if the loop has no such thing."""
    trains, made = kind == "train", has_training(full)
    table: Mapping[str, tuple[bool, str]] = {
        "loss": (True, "loss"),
        "out": (is_inside or "out" in full["returns"], "out"),
        "rate": (made and bool(full["schedule"]), "schedule.get_last_lr()"),
        "group rate": (made, 'optimizer.param_groups[0]["lr"]'),
        "weight": (True, "next(model.parameters())"),
        "metric": (is_inside and bool(full["metrics"]), "value0"),
        "number": (not is_inside, "i"),
        "scale": (made and trains and full["step_call"] != "plain", "scaler.get_scale()"),
    }
    is_there, text = table[what]
    return text if is_there else None


def _taken(full: Loop, closure: Mapping[str, Any], kind: str) -> str:
    """Return the arguments of a closure's call, by position or by name."""
    values = [_value(full, what, kind, closure["is_inside"]) or "None" for what in closure["takes"]]
    return ", ".join(f"v{n}={value}" if closure.get("by_name") else value for n, value in enumerate(values))


def _closure_reads(full: Loop) -> Mapping[str, str | None]:
    made = has_training(full)
    return {
        "rate": "schedule.get_last_lr()" if made and full["schedule"] else None,
        "group rate": '[group["lr"] for group in optimizer.param_groups]' if made else None,
        "metric": "float(metric0)" if full["metrics"] else None,
        "iteration": "executor.user_iteration, executor.on_final_iteration",
        "weight": "next(model.parameters())",
        "scale": "scaler.get_scale()" if made and full["step_call"] != "plain" else None,
        "state names": 'sorted(optimizer.state_dict()["state"].get(0, {}))' if made else None,
        "schedule state": "schedule.state_dict()" if made and full["schedule"] else None,
    }


def _closures(full: Loop) -> str:
    lines = []
    for n, closure in enumerate(full["closures"]):
        names = [f"v{k}" for k in range(len(closure["takes"]))]
        body = [f'show("closure{n}", {", ".join(names)})']
        for what in closure["reads"]:
            text = _closure_reads(full)[what]
            if text:
                body.append(f'show("closure{n} {what}", {text})')
        lines += [
            f"@cstorch.{closure['kind']}_closure",
            f"def closure{n}({', '.join(names)}):",
            *indented(body),
            "",
            "",
        ]
    if full["saves"]:
        lines += ["@cstorch.checkpoint_closure", "def save(run, i):", *indented(_save(full)), "", ""]
    if full["summaries"]:
        body = ['writer.add_scalar("loss", loss, i)', 'writer.add_tensor("loss tensor", loss, i)']
        lines += ["@cstorch.step_closure", "def summarize(loss, i):", *indented(body), "", ""]
    return "\n".join(lines)


def _saved_text(full: Loop, name: str) -> str | None:
    """Return the expression of a part of a checkpoint; None if the loop has no such part."""
    made = has_training(full)
    parts = {
        "model": "model.state_dict()",
        "optimizer": "optimizer.state_dict()" if made else None,
        "schedule": "schedule.state_dict()" if made and full["schedule"] else None,
        "scaler": "scaler.state_dict()" if made and full["step_call"] != "plain" else None,
        "metrics": "metric0.state_dict()" if full["metrics"] else None,
        "sparsity": "sparsity.state_dict()" if full["sparsity"] is not None else None,
        "number": "i",
    }
    return parts[name]


def _save(full: Loop) -> list[str]:
    state = ", ".join(f'"{name}": {text}' for name in full["saves"] if (text := _saved_text(full, name)))
    return [f'cstorch.save({{{state}}}, f"checkpoint_{{run}}_{{i}}.mdl")', 'show("saved", i)']


# --- the executions ---


def _runs(full: Loop) -> list[str]:
    texts = []
    for number, run in enumerate(full["runs"]):
        if number:
            texts += ["\n".join(_change(full, what, number)) for what in full["between"]]
        steps = f", num_steps={run['steps']}" if run["steps"] is not None else ""
        every = "" if run["checkpoint_steps"] is None else f", checkpoint_steps={_checkpoints(run['checkpoint_steps'])}"
        lines = [f"executor = cstorch.utils.data.DataExecutor(loader{steps}{every})"]
        body = _loop_body(full, run, number)
        lines += ["for i, inputs in enumerate(executor):", *indented(body), ""]
        texts.append("\n".join(lines))
    return texts


def _checkpoints(steps: int | list[Any]) -> str:
    """Return the setting: a number, or the schedule of one range."""
    if isinstance(steps, int):
        return str(steps)
    return f"cstorch.utils.data.Schedule([cstorch.utils.data.Schedule.Range{tuple(steps)}])"


def _loop_body(full: Loop, run: Mapping[str, Any], number: int) -> list[str]:
    kind = run["kind"]
    function = "train" if kind == "train" else "evaluate"
    body = [f"{', '.join(full['returns'])} = {function}(inputs)"]
    body += [_loop_read(full, what) for what in full["loop_reads"]]
    for n, closure in enumerate(full["closures"]):
        if not closure["is_inside"]:
            body.append(f"closure{n}({_taken(full, closure, kind)})")
    if full["saves"]:
        body.append(f"save({number}, i)")
    if full["summaries"]:
        body.append("summarize(loss, i)")
    if run.get("break"):
        body.append(f"if i == {run['break']}:\n{INDENT * 2}break")
    return body


def _loop_read(full: Loop, what: str) -> str:
    """Return a statement of the loop's body that reads something, which CSX may refuse."""
    has_rate = has_training(full) and full["schedule"]
    return {
        "kind": 'show("loop", i, list(loss.shape), str(loss.dtype))',
        "iteration": 'show("loop", i, executor.user_iteration, executor.on_final_iteration, executor.is_initial_step)',
        "loss": 'show("loop", i, loss.item())',
        "print": 'show("loop", i, str(loss.detach()))',
        "rate": 'show("rate", i, schedule.get_last_lr())' if has_rate else 'show("loop", i)',
        "metric": 'show("loop", i, float(metric0))' if full["metrics"] else 'show("loop", i)',
        "sum": 'show("loop", i, (loss * 2).item())',
        "if": f'if loss > 1:\n{INDENT * 2}show("loop", i)',
    }[what]


OUTSIDE = """
@cstorch.step_closure
def outside(v):
    show("outside", v)


outside(torch.ones(2))
show("called")
"""


def _statement_outside(full: Loop, what: str) -> str:
    """Return statements before or after all executions."""
    has_rate = has_training(full) and full["schedule"]
    texts: Mapping[str, str] = {
        "weight": 'show("weights", list(model.parameters()))',
        "metric": "\n".join(f'show("metric{n}", float(metric{n}))' for n in range(len(full["metrics"]))),
        "rate": 'show("rate", schedule.get_last_lr())' if has_rate else "",
        "save": 'cstorch.save({"model": model.state_dict()}, "outside.mdl")\nshow("saved outside")',
        "closure": OUTSIDE,
        "print": 'show("text", str(next(model.parameters()).shape), next(model.parameters()).requires_grad)',
        "write": "with torch.no_grad():\n    next(model.parameters()).mul_(0.5)",
        "iteration": 'show("iteration", executor.user_iteration, executor.on_final_iteration)',
    }
    return texts[what]


def _change(full: Loop, what: str, number: int) -> list[str]:
    """Return statements that change something before execution `number`."""
    table: Mapping[str, Callable[[], list[str]]] = {
        "weights": lambda: ["with torch.no_grad():", f"{INDENT}next(model.parameters()).mul_(0.5)"],
        "load": lambda: ["model.load_state_dict({k: torch.full(v.shape, 0.1) for k, v in model.state_dict().items()})"],
        "copy": lambda: ["with torch.no_grad():", f"{INDENT}p = next(model.parameters())", f"{INDENT}p.copy_(p * 0.5)"],
        "data": lambda: ["p = next(model.parameters()).data", "p.copy_(p * 0.5)"],
        "rate": lambda: ['optimizer.param_groups[0]["lr"] = 0.02'] if has_training(full) else [],
        "metrics": lambda: [f"metric{n}.reset()" for n in range(len(full["metrics"]))],
        "freeze": lambda: ["next(model.parameters()).requires_grad_(False)"],
        "seed": lambda: ["torch.manual_seed(5)"],
        "train mode": lambda: ["model.train()"],
        "closure": lambda: OUTSIDE.strip().splitlines(),
        "resume": lambda: _resume(full, number),
    }
    return table[what]()


def _resume(full: Loop, number: int) -> list[str]:
    loaded = [f'state = cstorch.load(sorted(glob.glob("checkpoint_{number - 1}_*.mdl"))[-1])']
    names = {"metrics": "metric0", "number": ""}
    parts = [(part, names.get(part, part)) for part in full["saves"] if _saved_text(full, part)]
    return [*loaded, *(f'{name}.load_state_dict(state["{part}"])' for part, name in parts if name)]
