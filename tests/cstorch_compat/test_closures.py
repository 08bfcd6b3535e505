"""Closures: whose exception it is, and what a lag between server and client changes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.names.mirror import mirror
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall, Closures
from lazytensor import nn

cstorch = mirror("cerebras.pytorch")


STEPS = 6


@pytest.fixture(scope="module")
def losses_at_lag(tmp_path_factory):
    """What closures of a training loop log, by lag; each closure notes the step of its arguments and of the client."""
    found: dict[int, list] = {}

    def train(lag: int) -> list:
        if lag not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(process.RUN, "backend", None)
                patch.setattr(process.RUN.options, "closure_lag", lag)
                cstorch.backend("CSX", artifact_dir=tmp_path_factory.mktemp("lag"))
                found[lag] = logged()
        return found[lag]

    return train


def logged() -> list:
    model = nn.Linear(3, 1)
    model.load_state_dict({"weight": lt.ones(1, 3), "bias": lt.zeros(1)})
    compiled = cstorch.compile(model)
    optimizer = cstorch.optim.SGD(model.parameters(), lr=0.125)
    loader = cstorch.utils.data.DataLoader(lambda: [(lt.full((2, 3), float(i)),) for i in range(STEPS)])
    executor = cstorch.utils.data.DataExecutor(loader, checkpoint_steps=2)
    log = []

    @cstorch.step_closure
    def inside(loss):
        log.append(("inside", loss.item()))

    @cstorch.trace
    def step(batch):
        loss = compiled(batch[0]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        inside(loss)
        return loss

    @cstorch.step_closure
    def note(i, loss):
        log.append(("outside", i, loss.item()))

    @cstorch.checkpoint_closure
    def save(i):
        log.append(("save", i, {k: v.tolist() for k, v in model.state_dict().items()}))

    @cstorch.step_closure
    def client(i):
        moments.append((i, executor.user_iteration))

    moments: list = []
    for i, batch in enumerate(executor):
        loss = step(batch)
        save(i)
        note(i, loss)
        client(i)
    return [log, moments]


@settings(deadline=None)
@given(lag=st.integers(0, STEPS + 2))
def test_what_closures_are_given_does_not_depend_on_the_lag(losses_at_lag, lag):
    assert losses_at_lag(lag)[0] == losses_at_lag(0)[0]


@settings(deadline=None)
@given(lag=st.integers(0, STEPS + 2))
def test_what_closures_look_up_for_themselves_is_late_by_the_lag(losses_at_lag, lag):
    for step, seen_at in losses_at_lag(lag)[1]:
        assert seen_at == min(step + 1 + lag, STEPS)


def test_checkpoint_closures_come_on_checkpoint_steps_and_see_falling_weights(losses_at_lag):
    saved = [entry for entry in losses_at_lag(0)[0] if entry[0] == "save"]
    assert [i for _, i, _ in saved] == [1, 3, 5]
    assert len({str(state) for *_, state in saved}) == 3


def test_an_exception_of_a_closure_carries_its_name_and_step():
    def fails(x):
        raise ZeroDivisionError(x)

    closures = Closures(lag=1)
    for step in (1, 2):
        closures.queue.append(ClosureCall(fails, (step,), {}, needs_checkpoint=False))
        if step == 1:
            closures.run(step, False, lambda x: x)
    with pytest.raises(ZeroDivisionError, match="1") as caught:
        closures.run(2, False, lambda x: x)
    assert "closure fails of step 1" in caught.value.__notes__[0]
