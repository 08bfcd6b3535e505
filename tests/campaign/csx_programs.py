"""Draw small cstorch scripts over the calls of csx_calls.txt: a module, a step with its backward pass, an executor.

A module grows call by call. Each call is first run on the host by our own package, which gives the shape and type of
its result, and is dropped if it fails there: what is drawn is right in PyTorch, and the front ends differ in what they
make of it. `draw(seed, number)` gives the same script each time, as long as the host computes the same.
"""

import contextlib
import functools
import math
import pathlib
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

CALLS = pathlib.Path(__file__).with_name("csx_calls.txt")
BATCH = 4
INPUTS = {
    "x": "torch.linspace(-1, 1, 32).reshape(4, 8)",
    "image": "torch.linspace(-1, 1, 192).reshape(4, 2, 4, 6)",
    "series": "torch.linspace(-1, 1, 96).reshape(4, 4, 6)",
    "k": "(torch.arange(8) % 3).reshape(4, 2)",
    "b": "(torch.arange(32) % 2 == 0).reshape(4, 8)",
    "t": "torch.arange(4) % 2",
}
"""The inputs that a script may have, with the batch first."""
LOSSES = (
    "out.sum()",
    "out.mean()",
    "(out * out).sum()",
    "(out ** 2).mean()",
    "F.mse_loss(out, torch.zeros_like(out))",
    "out.float().sum()",
    "F.cross_entropy(out, t)",
)
OPTIMIZERS = (
    *["SGD(model.parameters(), lr=0.1)"] * 6,
    "SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)",
    *["AdamW(model.parameters(), lr=0.01)"] * 2,
    "Adam(model.parameters(), lr=0.01)",
    "Adamax(model.parameters(), lr=0.01)",
    "NAdam(model.parameters(), lr=0.01)",
    "Adagrad(model.parameters(), lr=0.01)",
    "Adafactor(model.parameters(), lr=0.01, relative_step=False)",
    "Lion(model.parameters(), lr=0.01)",
    "Lamb(model.parameters(), lr=0.01)",
    "RMSprop(model.parameters(), lr=0.01)",
)
SCHEDULES = (
    "LinearLR(optimizer, initial_learning_rate=0.1, end_learning_rate=0.0, total_iters=5)",
    "ConstantLR(optimizer, learning_rate=0.1)",
    "ExponentialLR(optimizer, initial_learning_rate=0.1, total_iters=10, decay_rate=0.9)",
    "CosineDecayLR(optimizer, initial_learning_rate=0.1, end_learning_rate=0.01, total_iters=10)",
    "StepLR(optimizer, initial_learning_rate=0.1, gamma=0.5, step_size=2)",
)
PRECISIONS = (
    *[""] * 16,
    *['cstorch.amp.set_half_dtype("bfloat16")'] * 2,
    'cstorch.amp.set_half_dtype("cbfloat16")',
    "cstorch.amp.enable_mixed_precision(False)",
)
METRICS = {
    "cstorch.metrics.AccuracyMetric(name='accuracy')": "metric(labels=t.int(), predictions=out.argmax(-1).int())",
    "cstorch.metrics.PerplexityMetric(name='perplexity')": "metric(labels=t, loss=loss)",
}


RARE_SHARE = 0.15
"""Of the calls, those of rarely used names: a script stops at its first refusal, and most rare names are refused."""


@dataclass(frozen=True)
class Call:
    """A line of csx_calls.txt; `layer` is the constructor if the call is one of a layer."""

    text: str
    layer: str = ""


@functools.cache
def calls(is_rare: bool) -> tuple[Call, ...]:
    """Return the calls of widely used names, or those of rare ones."""
    return tuple(c for section, c in listed() if section.startswith("rare") == is_rare)


@functools.cache
def listed() -> tuple[tuple[str, Call], ...]:
    """Return all calls, each with its section."""
    found, section = list[tuple[str, Call]](), ""
    for line in CALLS.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line and not line.startswith("# "):
            layer, arrow, arguments = line.partition(" <- ")
            found.append((section, Call(arguments, layer) if arrow else Call(line)))
    return tuple(found)


@dataclass(frozen=True)
class Script:
    """A script as data; `statements` are lines of the module's forward, each `name = expression`."""

    layers: tuple[tuple[str, str], ...]
    statements: tuple[tuple[str, str], ...]
    output: str
    loss: str
    optimizer: str = ""
    schedule: str = ""
    scaler: str = ""
    clip: bool = False
    metric: str = ""
    precision: str = ""
    is_half_input: bool = False
    is_train: bool = True

    def used(self) -> list[str]:
        """Return the names of the inputs that the module reads, and x."""
        text = " ".join([*(e for _, e in self.statements), self.output])
        return ["x", *(n for n in INPUTS if n != "x" and re.search(rf"\b{n}\b", text))]

    def text(self) -> str:
        """Return the script as a user would write it."""
        used = self.used()
        labels = ["t"] if "t" not in used and re.search(r"\bt\b", self.loss + METRICS.get(self.metric, "")) else []
        batch = [INPUTS[n] + ".half()" * (self.is_half_input and n == "x") for n in (*used, *labels)]
        inner, given = ", ".join(used), ", ".join([*used, *labels])
        layers = [f"        self.{name} = {text}" for name, text in self.layers]
        body = [f"        {name} = {text}" for name, text in self.statements]
        lines = [
            "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F",
            "import cerebras.pytorch as cstorch\n\n",
            "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()",
            *layers,
            f"\n    def forward(self, {inner}):",
            *body,
            f"        return {self.output}\n\n",
            "torch.manual_seed(0)",
            self.precision,
            'backend = cstorch.backend("CSX", validate_only=True)',
            "model = Model()\ncompiled = cstorch.compile(model, backend)",
            "compiled.train()" if self.is_train else "compiled.eval()",
            *self._preparations(),
            f"\n\ndef batches():\n    return [({''.join(f'{b}, ' for b in batch)}) for _ in range(3)]\n\n",
            f"@cstorch.trace\ndef step({given}):\n    out = compiled({inner})",
            *self._step(),
            "\n\n@cstorch.step_closure\ndef show(value):\n    print(value.shape)\n\n",
            "loader = cstorch.utils.data.DataLoader(batches)",
            "for batch in cstorch.utils.data.DataExecutor(loader, num_steps=2):",
            "    show(step(*batch))\n",
        ]
        return "\n".join(line for line in lines if line)

    def _preparations(self) -> list[str]:
        lines = []
        if self.optimizer:
            lines.append(f"optimizer = cstorch.optim.{self.optimizer}")
        if self.schedule:
            lines.append(f"schedule = cstorch.optim.lr_scheduler.{self.schedule}")
        if self.scaler:
            lines.append(f"scaler = cstorch.amp.GradScaler({self.scaler})")
        if self.metric:
            lines.append(f"metric = {self.metric}")
        return lines

    def _step(self) -> list[str]:
        if not self.loss:
            return ["    return out"]
        lines = [f"    loss = {self.loss}"]
        if self.is_train:
            lines += ["    optimizer.zero_grad()"] if self.optimizer else []
            if self.scaler:
                lines += ["    scaler.scale(loss).backward()", "    scaler.unscale_(optimizer)"]
            else:
                lines += ["    loss.backward()"]
            lines += ["    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"] if self.clip else []
            if self.optimizer:
                ends = (
                    ["    scaler.step(optimizer)", "    scaler.update()"] if self.scaler else ["    optimizer.step()"]
                )
                lines += ends
            lines += ["    schedule.step()"] if self.schedule else []
        lines += [f"    {METRICS[self.metric]}"] if self.metric else []
        return [*lines, "    return loss"]


class Growth:
    """A module that grows: its layers and statements, and what its variables are on the host."""

    def __init__(self, draws: random.Random):
        import torch  # noqa: PLC0415  (the name is there once the shim is installed)

        self.draws, self.torch = draws, torch
        self.layers: list[tuple[str, str]] = [("fc", "nn.Linear(8, 8)")]
        self.statements: list[tuple[str, str]] = [("h", "self.fc(x)")]
        self.self = torch.nn.Module()
        self.values: dict[str, Any] = {
            "torch": torch,
            "nn": torch.nn,
            "F": torch.nn.functional,
            "math": math,
            "self": self.self,
        }
        for name, text in INPUTS.items():
            self.values[name] = eval(text, self.values)
        self.self.fc = torch.nn.Linear(8, 8)
        self.values["h"] = self.self.fc(self.values["x"])
        self.floats = ["h"]

    def expression(self, depth: int, call: Call | None = None) -> tuple[str, list[tuple[str, str]]]:
        """Return a drawn call, or the one that is given, as text, and the layers that it needs."""
        call = call or self.draws.choice(calls(is_rare=self.draws.random() < RARE_SHARE))
        layers: list[tuple[str, str]] = []
        filled: dict[str, str] = {}
        text = self._chosen(call.text)
        constructor = self._chosen(call.layer)
        for slot in dict.fromkeys(re.findall(r"\{(\w\d?)\}", text + constructor)):
            if slot in "xvamcg":
                filled[slot] = self._operand(slot, depth, layers)
        base = next((filled[s] for s in "xvamcg" if s in filled), "h")
        shape = self._shape(base) if filled else (BATCH, 8)
        if "{y}" in text:
            filled["y"] = self._alike(base, shape)
        if "{w}" in text:
            filled["w"] = self._layer(layers, f"nn.Parameter(torch.full(({shape[-1]},), 0.5))")
        if "{w2}" in text:
            filled["w2"] = self._layer(layers, f"nn.Parameter(torch.full((3, {shape[-1]}), 0.5))")
        sizes = {"N": shape[0] if shape else 1, "C": shape[1] if len(shape) > 1 else 1, "L": shape[-1] if shape else 1}
        filled |= {k: str(v) for k, v in sizes.items()} | {"k": "k", "b": "b", "t": "t"}
        for slot, value in filled.items():
            text = text.replace(f"{{{slot}}}", value)
            constructor = constructor.replace(f"{{{slot}}}", value)
        if call.layer:
            return f"{self._layer(layers, constructor)}({text})", layers
        return text, layers

    def _chosen(self, text: str) -> str:
        return re.sub(r"«([^»]*)»", lambda m: self.draws.choice(m[1].split("|")), text)

    def _layer(self, layers: list[tuple[str, str]], constructor: str) -> str:
        name = f"layer{len(self.layers) + len(layers)}"
        layers.append((name, constructor))
        return f"self.{name}"

    def _operand(self, slot: str, depth: int, layers: list[tuple[str, str]]) -> str:
        if depth and self.draws.random() < 0.25 and slot == "x":
            with contextlib.suppress(ArithmeticError, ValueError, TypeError, RuntimeError, LookupError, AttributeError):
                text, more = self.expression(depth - 1)
                value = self._tried(text, [*layers, *more])
                if self._is_operand(value):
                    layers += more
                    return text if re.fullmatch(r"[\w.]+(\(.*\))?", text) else f"({text})"
        rank = {"v": 1, "a": 2, "m": 3, "c": 4, "g": 5}.get(slot)
        names = [n for n in self.floats if rank is None or self.values[n].ndim == rank]
        if names:
            # What was computed last is chosen most often, so that calls form chains.
            return names[-1] if self.draws.random() < 0.7 else self.draws.choice(names)
        assert rank is not None
        made = {1: "h.mean(0)", 2: "h", 3: "series", 4: "image", 5: "image.unsqueeze(2)"}[rank]
        if rank in (3, 4) and self.draws.random() < 0.6:
            made = {3: "h.view(4, 2, 4)", 4: "h.view(4, 2, 2, 2)"}[rank]
        return made

    def _shape(self, text: str) -> tuple[int, ...]:
        return tuple(eval(text, self.values).shape)

    def _alike(self, base: str, shape: tuple[int, ...]) -> str:
        same = [n for n in self.floats if tuple(self.values[n].shape) == shape and n != base]
        return self.draws.choice(same) if same else base

    def _is_operand(self, value: Any) -> bool:
        is_tensor = isinstance(value, self.torch.Tensor)
        return is_tensor and value.is_floating_point() and value.ndim >= 1 and 0 < value.numel() < 5000

    def _tried(self, text: str, layers: list[tuple[str, str]]) -> Any:
        for name, constructor in layers:
            setattr(self.self, name, eval(constructor, self.values))
        return eval(text, self.values)

    def grow(self, call: Call | None = None) -> bool:
        """Add one statement. Returns False if the drawn call is wrong on the host."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                text, layers = self.expression(depth=0 if call else 1, call=call)
                value = self._tried(text, layers)
            except Exception:
                return False
        if not isinstance(value, self.torch.Tensor) or value.numel() == 0 or value.numel() > 5000:
            return False
        name = f"h{len(self.statements)}"
        self.layers += layers
        self.statements.append((name, text))
        self.values[name] = value
        if self._is_operand(value):
            self.floats.append(name)
        return True


def draw(seed: int, number: int, only: str = "") -> Script | None:
    """Return the script of that number.

    With `only` it has a single call, one of those whose section or text has a match of that regular expression: each in
    turn. Returns None if that call is wrong on the host.
    """
    draws = random.Random(f"{seed}/{number}/{only}")
    growth = Growth(draws)
    if only:
        matching = [c for section, c in listed() if re.search(only, f"{section}: {c.text} {c.layer}")]
        if not growth.grow(matching[number % len(matching)]):
            return None
    else:
        wanted = draws.choice((1, 1, 1, 2, 2, 3, 4))
        for _ in range(40):
            if len(growth.statements) > wanted:
                break
            growth.grow()
    output = growth.statements[-1][0]
    value = growth.values[output]
    is_train = value.requires_grad and value.is_floating_point() and draws.random() < 0.75
    losses = [loss for loss in LOSSES if not loss.startswith("F.cross") or (value.ndim == 2 and len(value) == BATCH)]
    loss = draws.choice(losses) if is_train else ("" if draws.random() < 0.7 else draws.choice(losses[:2]))
    if loss and not value.is_floating_point():
        loss = "out.float().sum()"
    optimizer = draws.choice(OPTIMIZERS) if is_train and draws.random() < 0.9 else ""
    rare = functools.partial(lambda share: draws.random() < share)
    return Script(
        layers=tuple(growth.layers),
        statements=tuple(growth.statements),
        output=output,
        loss=loss,
        optimizer=optimizer,
        schedule=draws.choice(SCHEDULES) if optimizer and rare(0.1) else "",
        scaler=draws.choice(('loss_scale="dynamic"', "loss_scale=2.0")) if optimizer and rare(0.07) else "",
        clip=bool(optimizer) and rare(0.07),
        metric=draws.choice(list(METRICS)) if loss and rare(0.04) and value.ndim == 2 and len(value) == BATCH else "",
        precision=draws.choice(PRECISIONS),
        is_half_input=rare(0.06),
        is_train=is_train,
    )


def smaller(script: Script) -> Iterator[Script]:
    """Give scripts with one thing less, most promising first."""
    for k in reversed(range(1, len(script.statements))):
        rest = script.statements[:k]
        yield replace(script, statements=rest, output=rest[-1][0], layers=_needed(script.layers, rest))
    for k in range(len(script.statements) - 1):
        name = script.statements[k][0]
        rest = (*script.statements[:k], *script.statements[k + 1 :])
        if not any(re.search(rf"\b{name}\b", e) for _, e in rest):
            yield replace(script, statements=rest, layers=_needed(script.layers, rest))
    for name in ("schedule", "scaler", "metric", "precision"):
        if getattr(script, name):
            yield replace(script, **{name: ""})
    if script.clip:
        yield replace(script, clip=False)
    if script.is_half_input:
        yield replace(script, is_half_input=False)
    if script.optimizer and script.optimizer != OPTIMIZERS[0]:
        yield replace(script, optimizer=OPTIMIZERS[0])
    if script.optimizer and not script.scaler and not script.schedule:
        yield replace(script, optimizer="")
    if script.is_train and not script.optimizer:
        yield replace(script, is_train=False)
    if script.loss and script.loss != "out.sum()":
        yield replace(script, loss="out.sum()")


def _needed(
    layers: tuple[tuple[str, str], ...], statements: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    text = " ".join(e for _, e in statements)
    return tuple((n, c) for n, c in layers if re.search(rf"self\.{n}\b", text))
