"""Plans of scripts with sparse weights: how dense a parameter is reaches the simulator."""

import pytest

from cstorch_compat.planning.recording import record_script
from lazytensor.ir.program import Density
from wse_sim import WSE2, plan
from wse_sim.planner.dataflow import wire
from wse_sim.planner.sparsity import find_sparsity

SCRIPT = """
import cerebras.pytorch as cstorch, torch, torch.nn as nn, torch.nn.functional as F
backend = cstorch.backend("CSX")
cstorch.backends.csx.precision.optimization_level = 0
with backend.device:
    model = nn.Linear(64, 32)
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sparsity = {algorithm}
model.apply(sparsity)
optimizer.apply(sparsity)
@cstorch.trace
def step(x):
    loss = F.mse_loss(compiled(x), torch.zeros(16, 32, device=x.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(16, 64)])
for x in cstorch.utils.data.DataExecutor(loader, num_steps=1):
    step(x)
"""
STATIC = "cstorch.sparse.Static(sparsity=0.75)"
RIGL = "cstorch.sparse.RigL(sparsity=0.75, update={'freq': 10}, balance_out_groups=4)"


def recorded(algorithm, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(algorithm=algorithm))
    return record_script(str(path)).first


@pytest.mark.slow
def test_density_and_precision_of_a_script_reach_its_plan(tmp_path):
    program = recorded(STATIC, tmp_path)
    assert program.density["model.weight"] == Density(0.25, "model.weight_mask")
    assert program.density["optimizer.state.0.momentum_buffer"] == program.density["model.weight"]
    report = plan(program, WSE2, "streaming").report
    assert report.streaming.edge_bytes_in < report.streaming.dense_bytes_in
    assert "Precision: level 0, sums of 16-bit products in float32." in report.text()


def test_pruning_is_part_of_the_update_and_runs_on_the_weight_host(tmp_path):
    program = recorded(STATIC, tmp_path)
    writers = [instr for instr in program.instrs if set(instr.writes) & {end for _, end in program.state.values()}]
    assert {instr.direction for instr in writers} == {"update"}


@pytest.mark.parametrize(("algorithm", "is_sparse"), [(STATIC, True), (RIGL, False)])
def test_gradient_is_sparse_unless_weights_grow_by_it(algorithm, is_sparse, tmp_path):
    wiring = wire(recorded(algorithm, tmp_path))
    products = [i for i in find_sparsity(wiring).gradients if wiring.program.instrs[i].kernel == "matmul"]
    assert bool(products) == is_sparse


def test_masks_that_change_are_found_on_the_weight_host(tmp_path):
    wiring = wire(recorded(RIGL, tmp_path))
    places = {i in wiring.on_host for i in wiring.kernels if wiring.program.instrs[i].kernel == "call"}
    assert places == {True}  # elements are ordered, and put into masks
    assert find_sparsity(wiring).weights[wiring.program.state["model.weight"][0]].out_groups == 4
