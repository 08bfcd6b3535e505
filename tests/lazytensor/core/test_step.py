"""Captured steps: they do what eager execution does, carry state, and leave nothing behind when they fail."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config
from lazytensor.core import storage
from lazytensor.core.capture import Capture
from lazytensor.core.device import Device
from lazytensor.core.step import StepRunner
from lazytensor.errors import StateError, TraceError
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from tests.lazytensor.live_nodes import live_nodes
from tests.lazytensor.tensor_programs import alias_programs, alias_step


class Machine:
    """A store and a runner, and a backend that counts what it compiles."""

    def __init__(self):
        self.store = Store()
        self.runner = StepRunner(self, self.store)
        self.compiled = 0

    def compile(self, program, store):
        self.compiled += 1
        return HostBackend().compile(program, store)

    def step(self, body, *batch: lt.Tensor, readable: bool = True):
        """Capture body(*batch), run it, and give its result."""
        capture = Capture(self.store, readable)
        for i, x in enumerate(batch):
            capture.feed(x.cell, i, f"x{i}")
        with capture:
            out = body(*batch)
            self.runner.run(capture)
        return out


@pytest.fixture(autouse=True)
def interpret_nests():
    with config.override(jit=False, check=True):
        yield


@settings(max_examples=60, deadline=None)
@given(alias_programs(8), st.booleans())
def test_compiled_steps_equal_numpy(program, readable):
    machine = Machine()
    program = [step for step in program if step[0] != "expand"]

    def body(pool: list, is_numpy: bool) -> list:
        for step in program:
            alias_step(pool, [True] * len(pool), step, is_numpy)
        return pool

    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)]
    tensors = [lt.tensor(a) for a in arrays]
    for i in range(3):
        x = np.full((2, 3), i - 0.5, np.float32)
        got = machine.step(lambda batch: body([*tensors, batch], False), lt.tensor(x), readable=readable)
        for g, w in zip([*got, *tensors], [*body([*arrays, x], True), *arrays], strict=True):
            np.testing.assert_array_equal(g.numpy(), w)
    assert machine.compiled <= 1


def train(machine: Machine | None, steps: int) -> tuple[list[float], list]:
    lt.manual_seed(3)
    model = lt.nn.Sequential(lt.nn.Linear(4, 5), lt.nn.Tanh(), lt.nn.Linear(5, 2))
    optimizer = lt.optim.Adam(model.parameters(), lr=0.05)
    x, y = lt.randn(6, 4), lt.arange(6) % 2

    def body() -> lt.Tensor:
        optimizer.zero_grad()
        loss = lt.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [(machine.step(body) if machine else body()).item() for _ in range(steps)]
    return losses, [p.tolist() for p in model.parameters()]


def test_training_in_steps_equals_training_without():
    machine = Machine()
    (losses, values), (eager_losses, eager_values) = train(machine, 6), train(None, 6)
    np.testing.assert_allclose(losses, eager_losses, rtol=2e-6)
    for got, want in zip(values, eager_values, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)
    assert machine.compiled == 1 and losses[-1] < losses[0]


def test_step_traced_again_is_the_same_graph():
    counter, roots = lt.zeros(3), []

    def body() -> lt.Tensor:
        counter.add_(1)
        out = (counter * 2).sum()
        roots.append((counter.node, out.node))
        return out

    machine = Machine()
    assert [machine.step(body).item() for _ in range(3)] == [6.0, 12.0, 18.0]
    assert roots[0][0] is roots[1][0] is roots[2][0] and roots[0][1] is roots[2][1]
    assert machine.compiled == 1


def test_what_is_born_in_a_step_and_survives_holds_its_value():
    kept, weight = [], lt.tensor([1.0, 2.0])
    machine = Machine()
    for _ in range(2):
        machine.step(lambda: kept.extend([weight * 3, weight.view(2, 1)[1]]) or weight.mul_(2))
    assert [k.tolist() for k in kept[::2]] == [[3.0, 6.0], [6.0, 12.0]]
    assert kept[1].tolist() == kept[3].tolist() == [8.0]  # views see the last write


def test_constant_made_in_a_step_can_be_used_in_the_next():
    kept, weight, machine = {}, lt.ones(2), Machine()
    machine.step(lambda: kept.update(data=lt.tensor([1.0, 2.0]), zeros=lt.zeros(2), view=lt.ones(2, 1).view(2)))
    machine.step(lambda: weight.add_(kept["data"]).add_(kept["zeros"]).add_(kept["view"]))
    assert weight.tolist() == [3.0, 4.0]


def test_constant_computed_outside_does_not_change_the_step():
    machine, kept = Machine(), []
    for _ in range(3):
        kept.append(machine.step(lambda: lt.zeros(3) * 2 - 1))
        kept.append(lt.zeros(3) * 2 - 1)
        assert kept[-1].tolist() == kept[-2].tolist() == [-1.0, -1.0, -1.0]
    assert machine.compiled == 1


def test_step_without_writes_changes_nothing():
    weight = lt.tensor([1.0, 2.0])
    machine = Machine()
    assert machine.step(lambda: weight.sum(), readable=False).item() == 3.0
    assert weight.tolist() == [1.0, 2.0]


def test_state_can_be_changed_between_steps():
    weight, machine = lt.zeros(2), Machine()

    def body() -> None:
        weight.add_(1)

    for value in (1.0, 5.0):
        machine.step(body)
        weight.mul_(2).add_(value)
    machine.step(body)
    assert weight.tolist() == [(1 * 2 + 1 + 1) * 2 + 5 + 1] * 2
    assert machine.compiled == 1


@pytest.mark.parametrize("readable", [True, False])
def test_error_in_a_step_restores_every_tensor(readable):
    weight, batch, machine = lt.tensor([1.0, 2.0]), lt.ones(2), Machine()
    tail = weight[1:]

    def body(x: lt.Tensor, fail: bool) -> None:
        weight.add_(x)
        tail.mul_(10)
        x.fill_(7)
        if fail:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        machine.step(lambda x: body(x, True), batch, readable=readable)
    assert (weight.tolist(), tail.tolist(), batch.tolist()) == ([1.0, 2.0], [2.0], [1.0, 1.0])
    assert storage.thread_state.current is None
    machine.step(lambda x: body(x, False), batch, readable=readable)
    assert (weight.tolist(), tail.tolist()) == ([2.0, 30.0], [30.0])


READS = {
    ".item()": lambda x: x.sum().item(),
    "bool()": lambda x: bool((x > 0).any()),
    "float()": lambda x: float(x[0]),
    "int()": lambda x: int(x[0]),
    ".tolist()": lambda x: x.tolist(),
    ".numpy()": lambda x: (x * 1).numpy(),
    "print()": lambda x: repr(x),
    "an index": lambda x: [1, 2, 3][x.long()[0]],
    "torch.tensor()": lambda x: lt.tensor(x, device="cpu"),
}


@pytest.mark.parametrize("what", READS)
def test_reading_in_an_unreadable_step_names_the_line_and_the_way_out(what):
    weight, read = lt.zeros(3), READS[what]
    weight.device = Device("lazy", 0)
    with pytest.raises(TraceError) as caught:
        Machine().step(lambda: read(weight), readable=False)
    line = inspect.getsourcelines(read)[1]
    text = str(caught.value)
    assert f"test_step.py:{line}: {what} needs the value of a " in text
    assert "float32[" in text or "bool[]" in text or "int64[" in text
    assert "torch.where" in text and "step_closure" in text
    assert weight.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("what", READS)
def test_a_tensor_of_the_client_is_read_in_an_unreadable_step_and_is_no_state_of_it(what):
    constant, seen = lt.tensor([1.0, 2.0, 0.0]), []
    expected = READS[what](constant)
    Machine().step(lambda: seen.append(READS[what](constant)), readable=False)
    assert str(seen[0]) == str(expected)
    assert constant.tolist() == [1.0, 2.0, 0.0]


def test_a_tensor_of_the_client_that_depends_on_the_batch_is_not_read():
    with pytest.raises(TraceError, match="needs the value of a"):
        Machine().step(lambda x: (x + lt.ones(2)).tolist(), lt.ones(2), readable=False)


def test_value_read_in_a_readable_step_is_the_present_one():
    weight, seen, machine = lt.zeros(()), [], Machine()

    def body() -> None:
        weight.add_(1)
        seen.append(weight.item())
        weight.mul_(10)
        seen.append(weight.item())

    machine.step(body)
    machine.step(body)
    assert seen == [1.0, 10.0, 11.0, 110.0]


def test_two_tensors_of_one_name_cannot_meet_in_a_step():
    a, b = lt.zeros(2), lt.ones(2)
    for t in (a, b):
        storage.register(t.cell, "model.weight")
    with pytest.raises(StateError, match=r"test_step\.py:\d+: two tensors of this step have the name 'model.weight'"):
        Machine().step(lambda: a.add_(b))
    assert a.tolist() == [0.0, 0.0]


def test_tensors_of_one_name_in_different_steps_keep_their_values():
    a, b, machine = lt.zeros(2), lt.ones(2), Machine()
    for t in (a, b):
        storage.register(t.cell, "model.weight")
    for _ in range(2):
        machine.step(lambda: a.add_(1))
        machine.step(lambda: b.mul_(3))
    assert a.tolist() == [2.0, 2.0] and b.tolist() == [9.0, 9.0]


def test_tensor_has_one_name():
    a = lt.zeros(2)
    storage.register(a.cell, "model.weight")
    storage.register(a.cell, "model.weight")
    with pytest.raises(StateError, match=r"test_step\.py:\d+: the tensor named 'model.weight' was registered again as"):
        storage.register(a.cell, "model.bias")


def test_two_optimizers_train_in_one_step():
    a, b = (lt.nn.Parameter(lt.ones(2)) for _ in "ab")
    first, second = lt.optim.SGD([a], 0.1, momentum=0.9), lt.optim.SGD([b], 1.0, momentum=0.5)
    machine = Machine()

    def body() -> None:
        a.grad = b.grad = None
        (a.sum() + 2 * b.sum()).backward()
        first.step()
        second.step()

    for _ in range(2):
        machine.step(body)
    np.testing.assert_allclose(a.tolist(), [1 - 0.1 - 0.19] * 2, rtol=1e-6)
    np.testing.assert_allclose(b.tolist(), [1 - 2 - 3] * 2, rtol=1e-6)


@pytest.mark.slow
def test_memory_stays_flat_in_a_loop_that_reads_nothing():
    weight, counter = lt.ones(3), lt.zeros(())
    grad = lt.ones(3)

    def body() -> None:
        weight.mul_(0.5).add_(grad)
        counter.add_(1)
        weight[0].fill_(2)

    sizes = []
    for i in range(3_001):
        body()
        if i in (100, 3_000):
            assert live_nodes() < 16_000  # unread work piles up before it is computed
            assert (counter.item(), weight.tolist()[0]) == (i + 1.0, 2.0)
            counter.zero_().add_(i + 1)  # the handles let go of what they saw last
            sizes.append(live_nodes())
    assert sizes[1] <= sizes[0] + 20


@pytest.mark.slow
def test_memory_stays_flat_in_a_training_loop_that_reads_its_loss():
    x = lt.nn.Parameter(lt.ones(3))
    optimizer = lt.optim.SGD([x], 0.01, momentum=0.9)
    sizes = []
    for i in range(300):
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        optimizer.step()
        loss.item()
        if i in (99, 299):
            sizes.append(live_nodes())
    assert sizes[1] <= sizes[0] + 20
