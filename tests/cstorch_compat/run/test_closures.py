"""Closures: whose exception it is, and what a lag between server and client changes."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.files.tree import flatten
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall, ClosureQueue
from lazytensor import nn

cstorch = get_mirror("cerebras.pytorch")


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

    closures = ClosureQueue(lag=1)
    for step in (1, 2):
        closures.queue.append(ClosureCall(fails, (step,), {}, needs_checkpoint=False))
        if step == 1:
            closures.run(step, False, lambda x: x)
    with pytest.raises(ZeroDivisionError, match="1") as caught:
        closures.run(2, False, lambda x: x)
    assert "closure fails of step 1" in caught.value.__notes__[0]


class WithUnread(nn.Module):
    """A model with a buffer that no step reads."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)
        self.register_buffer("unread", lt.arange(3.0))

    def forward(self, x):
        return self.fc(x)


@pytest.fixture(params=["CPU", "CSX"])
def backend(request, monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    return cstorch.backend(request.param, artifact_dir=tmp_path)


def each_step(act, steps=3):
    """Call `act(i, loss, model)` in the loop after each step."""
    model = WithUnread()
    compiled = cstorch.compile(model)
    step = cstorch.trace(lambda batch: compiled(batch[0]).sum())
    loader = cstorch.utils.data.DataLoader(lambda: [(lt.ones(2, 3),)] * steps)
    for i, batch in enumerate(cstorch.utils.data.DataExecutor(loader)):
        act(i, step(batch), model)


def test_closures_take_tensors_of_the_client_and_state_that_no_step_reads(backend):
    seen, earlier = [], lt.tensor(7.0)
    note = cstorch.step_closure(lambda loss, *others: seen.append([t.tolist() for t in others]))
    each_step(
        lambda i, loss, model: note(loss, lt.tensor(float(i)), earlier, lt.from_numpy(np.array([i, i])), model.unread)
    )
    assert seen == [[float(i), 7.0, [i, i], [0.0, 1.0, 2.0]] for i in range(3)]


@pytest.mark.parametrize("backend", ["CSX"], indirect=True)
def test_reading_what_no_closure_was_given_names_the_way_out(backend):
    kept = []
    read = cstorch.step_closure(lambda loss: kept[0].item())
    model = WithUnread()
    compiled = cstorch.compile(model)

    @cstorch.trace
    def step(batch):
        kept.append(compiled(batch[0]).mean())
        return kept[0] * 2

    loader = cstorch.utils.data.DataLoader(lambda: [(lt.ones(2, 3),)])
    with pytest.raises(RuntimeError, match=r"read outside of the step, but was not fetched[^@]*@cstorch.step_closure"):
        for batch in cstorch.utils.data.DataExecutor(loader):
            read(step(batch))


@pytest.mark.parametrize("backend", ["CSX"], indirect=True)
def test_an_output_is_named_by_the_last_closure_that_takes_it(backend, tmp_path):
    first, second = cstorch.step_closure(lambda loss: None), cstorch.step_closure(lambda rate: None)

    def give(i, loss, model):
        first(loss)
        second(model.unread)
        second(loss)

    each_step(give)
    text = next(tmp_path.glob("**/cirh.mlir")).read_text()
    assert re.findall(r'cs.output_name = "(\w+)"', text) == ["output_rate", "output_rate1"]


def test_name_that_another_output_has_got_is_not_given_again(script, tmp_path):
    done = script("""
backend = cstorch.backend("CSX", validate_only=True)
compiled = cstorch.compile(MLP(), backend)

@cstorch.trace
def step(batch):
    out = compiled(batch[0])
    return out.sum(), out.mean(), out.amax()

closures = [cstorch.step_closure(f) for f in (lambda rate: None, lambda rate: None, lambda rate1: None)]
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=1):
    for closure, result in zip(closures, step(batch)):
        closure(result)
""")
    assert done.returncode == 0, done.stderr
    text = next(tmp_path.glob("**/cirh.mlir")).read_text()
    # As release 2.10 names them.
    assert sorted(re.findall(r'cs.output_name = "(\w+)"', text)) == ["output_rate", "output_rate1", "output_rate11"]


def two(a, b=None): ...
def more(a, *others): ...
def keywords(a, *, b=None, **others): ...


# As release 2.10 names the outputs of a program.
NAMED = [
    (two, (1, 2), {}, ["a", "b"]),
    (two, (1,), {"b": 2}, ["0_0", "1_b"]),
    (two, (), {"a": 1, "b": 2}, ["1_a", "1_b"]),
    (two, ([1, {"c": 2}],), {}, ["0_0_0", "0_0_1_c"]),
    (more, (1,), {}, ["a"]),
    (more, (1, 2), {}, ["0_0", "0_1"]),
    (keywords, (1,), {"b": 2}, ["b", "a"]),
    (keywords, (1,), {"c": 2}, ["c", "a"]),
    (print, (1, 2), {}, ["0_0", "0_1"]),
    ([].append, (1,), {}, ["0_0"]),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "names"), NAMED)
def test_arguments_have_the_names_of_parameters_or_their_places(function, args, kwargs, names):
    args, kwargs = map_leaves(args, lt.tensor), map_leaves(kwargs, lt.tensor)
    arguments = ClosureCall(function, args, kwargs, needs_checkpoint=False).arguments()
    assert [name + path for name, value in arguments.items() for path, _ in flatten(value)] == names


def map_leaves(tree, make):
    """A structure with something made of each of its numbers."""
    if isinstance(tree, dict):
        return {k: map_leaves(v, make) for k, v in tree.items()}
    return type(tree)(map_leaves(v, make) for v in tree) if isinstance(tree, tuple | list) else make(tree)
