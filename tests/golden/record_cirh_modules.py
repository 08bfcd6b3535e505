"""Record the CIRH lines of small modules: `python tests/golden/record_cirh_modules.py` with cerebras_pytorch 2.10.0.

The cases are the keys of the files cirh_modules_*.json. Lines are recorded for cases that have none, with `--all` for
each case.
"""

import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tests.campaign import cirh_texts

GOLDENS = sorted(pathlib.Path(__file__).parent.glob("cirh_modules_*.json"))
SCRIPT = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=False)
        self.w = nn.Parameter(torch.full((4,), 0.5))
        self.layer = {layer}

    def forward(self, x, t):
        h = self.fc(x)
        return {expression}

backend = cstorch.backend("CSX", validate_only=True)
model = Model()
compiled = cstorch.compile(model, backend)
{preparation}

@cstorch.trace
def step(x, t):
    out = compiled(x, t)
    {statements}

@cstorch.step_closure
def show(value):
    pass

loader = cstorch.utils.data.DataLoader(lambda: [(torch.linspace(-1, 1, 8).reshape(2, 4), torch.arange(2) % 2)] * 2)
for batch in cstorch.utils.data.DataExecutor(loader, num_steps=1):
    show(step(*batch))
"""


def text(case: str) -> str:
    """Return the script of a case, which is `expression | loss | optimizer`, or has `layer -> operand` first.

    The loss and the optimizer may be missing. An optimizer is followed by its schedule, if there is a fourth part.
    """
    expression, loss, optimizer, schedule = [*map(str.strip, case.split("|")), "", "", ""][:4]
    layer, arrow, operand = expression.partition(" -> ")
    lines = ["return out"]
    if loss:
        lines = [f"loss = {loss}", "loss.backward()", *["optimizer.step()"] * bool(optimizer)]
        lines += ["schedule.step()"] * bool(schedule) + ["return loss"]
    made = [f"optimizer = cstorch.optim.{optimizer}"] * bool(optimizer)
    made += [f"schedule = cstorch.optim.lr_scheduler.{schedule}"] * bool(schedule)
    if arrow:
        expression = f"self.layer({operand})"
    return SCRIPT.format(
        layer=layer if arrow else None,
        expression=expression,
        preparation="\n".join(made),
        statements="\n    ".join(lines),
    )


def lines(folder: pathlib.Path) -> list[str]:
    """Return what the CIRH text in a folder says, as sorted lines with counts."""
    said = cirh_texts.content(next(folder.glob("**/cirh.mlir")).read_text())
    operations = [f"{n} {line}" for line, n in said.operations.items()]
    return sorted([*operations, *said.constants, *(f"argument {a}" for a in said.arguments), *said.results])


def _record(case: str, folder: pathlib.Path) -> list[str]:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        script = folder / "script.py"
        script.write_text(text(case))
        exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__", "__file__": str(script)})
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"the script of {case!r} failed")
    return lines(folder)


if __name__ == "__main__":
    import cerebras.pytorch  # noqa: F401 - once for all children

    for golden in GOLDENS:
        known = json.loads(golden.read_text())
        for case, before in known.items():
            if not before or "--all" in sys.argv:
                with tempfile.TemporaryDirectory() as folder:
                    known[case] = _record(case, pathlib.Path(folder))
        golden.write_text(json.dumps(known, indent=0) + "\n")
