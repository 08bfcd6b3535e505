"""One process can run one script after the other: `RUN.reset()` leaves nothing of the first one to the second."""

import itertools
import pathlib
import re
import sys
import types
import weakref
from collections import OrderedDict
from typing import Any

import pytest

from cstorch_compat.run import process
from tests.conftest import PACKAGES, PREAMBLE, lazywafer, python

NUMBERED = """
torch.set_default_dtype(torch.float32)
cstorch.amp.set_half_dtype(torch.bfloat16)
cstorch.backends.csx.precision.optimization_level = 2
cstorch.backends.csx.debug.debug_args.some.setting = 3
backend = cstorch.backend("CSX")
model = MLP()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.01)
schedule = cstorch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 0.2, total_iters=4)
scaler = cstorch.amp.GradScaler("dynamic")
accuracy = cstorch.metrics.AccuracyMetric("accuracy")

@cstorch.trace
def step(batch):
    x, y = batch
    logits = compiled(F.dropout(x, 0.3))
    loss = F.cross_entropy(logits, y)
    accuracy(y, logits.argmax(-1))
    cstorch.amp.optimizer_step(scaler.scale(loss), optimizer, scaler)
    schedule.step()
    return loss

@cstorch.step_closure
def log(loss):
    print(loss.item().hex(), sorted(name for name, _ in cstorch.metrics.get_all_metrics()))

for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=3):
    log(step(batch))
"""
BROKEN = """
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.manual_seed(11)
cstorch.amp.enable_mixed_precision(False)
compiled = cstorch.compile(MLP(), cstorch.backend("CSX"))

@cstorch.trace
def step(batch):
    print(torch.rand(2).dtype, cstorch.amp.get_floating_point_dtype_str())
    return compiled(batch[0].float()) + torch.rand(3).item()

for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=2):
    step(batch)
"""
PLAIN = """
print(torch.rand(3).tolist(), torch.tensor(1.5).dtype, cstorch.amp.get_floating_point_dtype_str())
print(cstorch.backends.csx.precision.optimization_level, cstorch.backends.csx.debug.debug_args)
model = MLP()
print(F.cross_entropy(model(torch.ones(2, 6)), torch.tensor([0, 1])).backward(), model.fc1.weight.grad.sum().item())
"""
SCRIPTS = {"numbered": NUMBERED, "broken": BROKEN, "plain": PLAIN}


def outcome(command, folder: pathlib.Path, name: str) -> tuple[int, str, dict[str, str]]:
    """What a script leaves: its status, what it says, and the texts of its executions."""
    folder.mkdir()
    (folder / "script.py").write_text(PREAMBLE + SCRIPTS[name])
    done = command("run", "script.py", cwd=folder)
    said = [line for line in done.stdout.splitlines() if "samples/s" not in line]  # the clock decides
    errors = [line for line in done.stderr.splitlines() if "steps/s" not in line]
    texts = {str(p.relative_to(folder)): numbered(p.read_text()) for p in sorted(folder.rglob("*.mlir"))}
    return done.returncode, "\n".join([*said, *errors]).replace(str(folder), ""), texts


def numbered(text: str) -> str:
    """A text whose variables are counted from the first one: their own numbers never come back in a process."""
    first = min((int(n) for n in re.findall(r"uid = (\d+)", text)), default=0)
    return re.sub(r"uid = (\d+)", lambda m: f"uid = {int(m[1]) - first}", text)


def alone(*args: str, cwd: pathlib.Path) -> Any:
    return python("-m", "cstorch_compat", *args, cwd=cwd)


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, Any]:
    """What each script leaves in a process of its own."""
    folder = tmp_path_factory.mktemp("alone")
    return {name: outcome(alone, folder / name, name) for name in SCRIPTS}


@pytest.mark.process
@pytest.mark.parametrize("order", [tuple(SCRIPTS), tuple(reversed(SCRIPTS))], ids="-".join)
def test_scripts_in_one_process_give_what_each_gives_alone(order, expected, tmp_path):
    assert {name: outcome(lazywafer, tmp_path / name, name) for name in order} == expected


CACHES = frozenset(
    """
    lazytensor.ir.graph._intern_table lazytensor.ops.op._splat_cache lazytensor.runtime.jit._loaded
    lazytensor.runtime.jit._salt lazytensor.core.source._is_internal lazytensor.core.source._locations
    lazytensor.ir.graph._id_counter lazytensor.ir.graph._serials lazytensor.functional.random_state._random_state
    lazytensor.random.default_generator cstorch_compat.run.process.RUN """.split()
)
"""What may differ behind a script: what is found again by content, numbers that never come back, and what starts over
as a whole."""
PLAIN_VALUES = (bool, int, float, str, type(None), list, dict, set, OrderedDict, weakref.WeakSet, itertools.count)


def module_state() -> dict[str, str]:
    """The values of all variables of our modules that a script could have changed, as text."""
    found = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.startswith(PACKAGES):
            for variable, value in list(vars(module).items()):
                if isinstance(value, PLAIN_VALUES) and not variable.startswith("__"):
                    found[f"{name}.{variable}"] = repr(value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_no_module_keeps_anything_of_a_script(name, tmp_path):
    outcome(lazywafer, tmp_path / "first", name)  # imports what it needs
    before = module_state()
    outcome(lazywafer, tmp_path / "second", name)
    after = module_state()
    assert {k for k in before if before[k] != after[k]} - CACHES == set()


def test_a_slot_begins_anew_with_each_run():
    slot = process.RunLocal(list)
    slot.value.append(1)
    assert slot.value == [1]
    slot.value = [2]
    assert slot.value == [2]
    process.RUN.slots.pop(slot)
    assert slot.value == []
