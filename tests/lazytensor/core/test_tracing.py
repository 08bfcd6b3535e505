"""`lazytensor.trace`: the program of a function, recorded from types, which changes nothing."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.errors import CompileError, TraceError
from lazytensor.nn import functional as F
from lazytensor.optim import Adam
from lazytensor.runtime.host import HostBackend


def training_step():
    """A step of a small perceptron, and its model."""
    lt.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    optimizer = Adam(model.parameters(), lr=0.1)

    def step(x, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def test_training_goes_on_as_if_nobody_had_traced():
    batch = lt.from_numpy(np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8)), lt.arange(5) % 4
    losses = []
    for traces in (False, True):
        step, model = training_step()
        losses.append([])
        for _ in range(3):
            if traces:
                gradient = model[0].weight.grad
                lt.trace(step, *batch)
                assert model[0].weight.grad is gradient
            losses[-1].append(float(step(*batch)))
    assert losses[0] == losses[1]


def test_traced_program_is_that_of_the_recorded_family():
    step, _ = training_step()
    batch = abstract_step.tensor((5, 8)), abstract_step.tensor((5,), lt.int64)
    ours, recorded = lt.trace(step, *batch), abstract_step.record(step, batch).program()
    assert [i.label for i in ours.instrs] == [i.label for i in recorded.instrs]
    assert [b.type for b in ours.buffers] == [b.type for b in recorded.buffers]


def test_arrays_in_containers_are_inputs_and_numbers_are_constants():
    program = lt.trace(lambda batch, k: batch["a"] * k + batch["b"][0], {"a": np.ones(3), "b": [lt.ones(3)]}, 4)
    assert [program.buffers[i].type.dtype for i in program.batch] == [lt.float64, lt.float32]
    (result,) = HostBackend().compile(program, {}).step([np.array([1.0, 2.0, 3.0]), np.ones(3, np.float32)])
    np.testing.assert_array_equal(result, [5.0, 9.0, 13.0])


def test_products_run_in_the_half_type_that_was_asked_for():
    layer = nn.Linear(8, 4)
    program = lt.trace(layer, lt.ones(2, 8), half=lt.bfloat16)
    assert program.buffers[program.fetches[0]].type.dtype is lt.bfloat16


def test_step_without_tensors_or_with_a_read_is_refused():
    with pytest.raises(CompileError, match="no example is a tensor"):
        lt.trace(lambda x: x, 3)
    with pytest.raises(TraceError, match=r"test_tracing\.py"):
        lt.trace(lambda x: float(x.sum()), lt.ones(3))


def test_names_of_ours_are_no_names_of_torch(script):
    done = script("import torch\nprint(float(torch.trace(torch.eye(3))), hasattr(torch, 'trace_graph'))")
    assert done.stdout.split() == ["3.0", "False"]
