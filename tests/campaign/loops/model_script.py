"""Writes the model of a drawn loop."""

from typing import Any

from tests.campaign.loops.drawing import WIDTH, Loop
from tests.campaign.loops.script_lines import INDENT, indented


def _layer(kind: str, width: int, size: int | None, options: list[str]) -> tuple[list[str], list[str]]:
    """Return the statements of __init__ and of forward for one layer; `{n}` is its number."""
    bias = ", bias=False" if "no bias" in options else ""
    simple = {
        "Linear": f"torch.nn.Linear({width}, {size}{bias})",
        "Embedding": f"torch.nn.Embedding(11, {size})",
        "Conv2d": f"torch.nn.Conv2d(1, {size}, 3, padding=1)",
        "Flatten": "torch.nn.Flatten()",
        "LayerNorm": f"torch.nn.LayerNorm({width})",
        "BatchNorm1d": f"torch.nn.BatchNorm1d({width})",
        "Dropout": "torch.nn.Dropout(0.2)",
    }
    if kind == "Scale":
        return [f"self.part{{n}} = torch.nn.Parameter(torch.full(({width},), 1.5))"], ["x = x * self.part{n}"]
    if kind == "Count":
        lines = ["with torch.no_grad():", f"{INDENT}self.part{{n}} += 1", "x = x * (1.0 / (1.0 + self.part{n}))"]
        return ['self.register_buffer("part{n}", torch.zeros(()))'], lines
    if kind == "Twice":
        line = "x = self.part{n}(torch.tanh(self.part{n}(x)))"
        return [f"self.part{{n}} = torch.nn.Linear({width}, {width})"], [line]
    if kind == "Unused":
        return ["self.part{n} = torch.nn.Linear(2, 2)"], []
    if kind == "Frozen":
        lines = [f"self.part{{n}} = torch.nn.Linear({width}, {width})", "self.part{n}.weight.requires_grad_(False)"]
        return lines, ["x = self.part{n}(x)"]
    made = simple.get(kind, f"torch.nn.{kind}()")
    mean = ".mean(1)" if kind == "Embedding" else ""
    return [f"self.part{{n}} = {made}"], [f"x = self.part{{n}}(x){mean}"]


def model_text(full: Loop, noise: float) -> str:
    """Return the class of the model, its making and its sparsity; with `noise`, the weights are off by that share."""
    made, used = [], []
    width = WIDTH
    for n, (kind, *options) in enumerate(full["layers"]):
        sizes = [o for o in options if isinstance(o, int)]
        size = sizes[0] if sizes else None
        inits, forwards = _layer(kind, width, size, [o for o in options if isinstance(o, str)])
        made += [line.replace("{n}", str(n)) for line in inits]
        used += [line.replace("{n}", str(n)) for line in forwards]
        width = size * 9 if kind == "Conv2d" else size or width
    lines = ["class Net(torch.nn.Module):", f"{INDENT}def __init__(self):", f"{INDENT * 2}super().__init__()"]
    lines += [*indented(made, 2), "", f"{INDENT}def forward(self, x):", *indented([*used, "return x"], 2), "", ""]
    lines += ["with backend.device:", f"{INDENT}model = Net()"] if full["device_scope"] else ["model = Net()"]
    if noise:
        lines += ["with torch.no_grad():", f"{INDENT}for p in model.parameters():"]
        lines += [f"{INDENT * 2}p.mul_(1.0 + {noise} * ramp(*p.shape))"]
    lines.append("compiled = cstorch.compile(model, backend)")
    if full["sparsity"] is not None:
        lines += [f"sparsity = cstorch.sparse.configure({_sparsity(full['sparsity'])})", "model.apply(sparsity)"]
    return "\n".join(lines)


def _sparsity(spec: Any) -> str:
    if not isinstance(spec, dict):
        return repr(spec)
    spec = dict(spec)
    if "schedule" in spec:
        kind, init, gamma = spec.pop("schedule")
        spec["sparsity"] = {"type": kind, "init": init, "gamma": -gamma}
    if "update" in spec:
        spec["update"] = {k: v for k, v in spec["update"].items() if v is not None}
    return repr(spec)
