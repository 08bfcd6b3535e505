"""State on the wafer: when the client may read it, when it may change it, and what was made too late."""

import re
import warnings

import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn
from lazytensor.errors import StateError

cstorch = get_mirror("cerebras.pytorch")
optim = get_mirror("cerebras.pytorch.optim")


@pytest.fixture(autouse=True)
def backend(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    monkeypatch.setattr(process.RUN.options, "strict", False)
    return cstorch.backend("CSX", artifact_dir=tmp_path)


def loader(n: int = 3):
    return cstorch.utils.data.DataLoader(lambda: [(lt.full((2, 3), float(i)),) for i in range(n)])


class Run:
    """A linear layer whose weight each step lowers by one tenth of its gradient."""

    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.compiled = cstorch.compile(self.model)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.seen: list = []

    def loop(self, steps: int, checkpoint_steps: int | None, in_step=lambda run: None, after=lambda run: None):
        @cstorch.trace
        def step(batch):
            loss = self.compiled(batch[0]).sum()
            loss.backward()
            self.optimizer.step()
            in_step(self)
            self.optimizer.zero_grad()
            return loss

        for batch in cstorch.utils.data.DataExecutor(loader(), steps, checkpoint_steps):
            cstorch.step_closure(lambda loss: self.seen.append(loss.item()))(step(batch))
            after(self)
        return self


def weight(run) -> list:
    return run.model.weight.tolist()


def test_state_is_read_before_the_first_step_and_after_a_checkpointed_last_one():
    whole = Run()
    before = weight(whole)
    whole.loop(3, checkpoint_steps=2)
    assert weight(whole) != before


def test_state_of_a_run_without_checkpoints_stays_on_the_wafer():
    whole = Run().loop(2, checkpoint_steps=0)
    with pytest.raises(StateError, match="checkpoint_steps"):
        weight(whole)
    with pytest.raises(StateError, match=r"model\.weight cannot be changed"):
        whole.model.load_state_dict({"weight": lt.ones(1, 3), "bias": lt.ones(1)})
    whole.loop(1, checkpoint_steps=1)
    assert len(weight(whole)[0]) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.weight.data.mul_(0.9),
        lambda model: model.load_state_dict({"weight": lt.ones(1, 3), "bias": lt.ones(1)}),
    ],
)
def test_without_lazy_initialization_weights_change_before_the_first_execution_alone(backend, change):
    backend.flags.debug.lazy_initialization = False
    try:
        whole = Run()
        change(whole.model)
        whole.loop(2, checkpoint_steps=1)
        with pytest.raises(StateError, match="without lazy initialization") as raised:
            change(whole.model)
        assert "lazy_initialization" in raised.value.hint and raised.value.where
        assert len(weight(whole)[0]) == 3  # a checkpoint was taken, so it can be read
        whole.loop(1, checkpoint_steps=1)
        # A model that no execution has run is free.
        change(nn.Linear(3, 1))
        backend.flags.debug.lazy_initialization = True
        change(whole.model)
    finally:
        backend.flags.restore()


def test_a_loop_that_ran_no_step_leaves_state_as_readable_as_it_was():
    def fail(whole):
        with pytest.raises(ZeroDivisionError):
            whole.loop(1, checkpoint_steps=1, in_step=lambda whole: 1 / 0)
        whole.optimizer.zero_grad()

    whole = Run().loop(1, checkpoint_steps=1)
    fail(whole)
    assert len(weight(whole)[0]) == 3
    whole.loop(1, checkpoint_steps=0)
    fail(whole)
    with pytest.raises(StateError, match="cannot be fetched"):
        weight(whole)


def test_a_closure_off_the_checkpoint_steps_is_told_the_next_one():
    @cstorch.step_closure
    def read(whole):
        weight(whole)

    with pytest.raises(RuntimeError, match="next checkpoint step is 4") as caught:
        Run().loop(5, checkpoint_steps=4, after=read)
    assert any("read of step 1" in note for note in caught.value.__notes__)


def test_checkpoint_closures_see_the_state_of_their_step():
    seen = []
    keep = cstorch.checkpoint_closure(lambda whole: seen.append(weight(whole)))
    whole = Run().loop(4, checkpoint_steps=2, after=keep)
    assert len(seen) == 2 and seen[0] != seen[1] == weight(whole)


def test_state_that_is_passed_to_a_closure_is_an_output_of_every_step():
    seen = []
    watch = cstorch.step_closure(lambda bias: seen.append(bias.item()))
    whole = Run().loop(3, checkpoint_steps=3, in_step=lambda whole: watch(whole.model.bias))
    assert len(set(seen)) == 3 and seen[-1] == whole.model.bias.item()


def test_metrics_are_read_in_every_step_and_reset_between_runs():
    mean, seen = cstorch.metrics.MeanMetric("bias"), []
    look = cstorch.step_closure(lambda whole: seen.append(float(mean)))
    whole = Run().loop(3, checkpoint_steps=0, in_step=lambda whole: mean(whole.model.bias.sum()), after=look)
    assert len(set(seen)) == 3 and seen[-1] == float(mean)
    mean.reset()
    with pytest.raises(StateError, match="cannot be fetched"):
        weight(whole)


def test_state_changes_between_runs_and_not_within_one():
    whole = Run().loop(1, checkpoint_steps=1)
    whole.model.weight.data.zero_()
    whole.model.bias.data.fill_(4.0)
    whole.loop(1, checkpoint_steps=1)
    assert whole.seen[1] == 8.0  # two rows of zeros

    @cstorch.checkpoint_closure
    def spoil(whole):
        whole.model.weight.data.zero_()

    with pytest.raises(RuntimeError, match="cannot be changed while the loop"):
        whole.loop(2, checkpoint_steps=1, after=spoil)


def late(whole):
    for p in whole.model.parameters():
        state = whole.optimizer.state[p]
        if "mean" not in state:
            state["mean"] = lt.zeros_like(p.grad)
        state["mean"].add_(p.grad)


def test_state_that_is_made_in_the_step_is_named_in_a_warning():
    with pytest.warns(
        UserWarning, match=r"SGD.state\[model.weight\]\['mean'\].*test_state_checks.py:\d+.*first created inside"
    ):
        Run().loop(2, checkpoint_steps=0, in_step=late)


def test_strict_refuses_state_that_is_made_in_the_step(monkeypatch):
    monkeypatch.setattr(process.RUN.options, "strict", True)
    with pytest.raises(RuntimeError, match="preinitialize"):
        Run().loop(2, checkpoint_steps=0, in_step=late)


def test_a_step_that_makes_no_state_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Run().loop(2, checkpoint_steps=0)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("addcdiv(value=...)", lambda w, by: w.addcdiv_(w, w + 2, value=by)),
        ("addcmul(value=...)", lambda w, by: w.addcmul_(w, w, value=by)),
        ("add(alpha=...)", lambda w, by: w.add_(w, alpha=by)),
        ("sub(alpha=...)", lambda w, by: w.sub(w, alpha=by)),
    ],
)
def test_a_traced_tensor_is_no_scalar_argument(name, change):
    with pytest.raises(
        RuntimeError, match=re.escape(f"{name} needs the value of a float32[], but tensors have no values")
    ):
        Run().loop(1, None, in_step=lambda whole: change(whole.model.weight.data, whole.model.bias.sum()))


class Judged(nn.Module):
    """A layer that holds a metric of its own, as the Model Zoo's models do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.layer.load_state_dict({"weight": lt.zeros(2, 3), "bias": lt.tensor([1.0, 0.0])})
        self.accuracy = cstorch.metrics.AccuracyMetric("eval/accuracy")

    def forward(self, x):
        predictions = self.layer(x).argmax(-1)
        self.accuracy(labels=lt.zeros_like(predictions), predictions=predictions)
        return predictions


def test_the_metric_of_a_model_is_state_of_it_and_can_be_read_and_reset_at_any_time():
    model, loose = Judged(), cstorch.metrics.AccuracyMetric("loose")
    compiled = cstorch.compile(model)

    @cstorch.trace
    @lt.no_grad()
    def step(batch):
        return loose(labels=compiled(batch[0]), predictions=model.layer(batch[0]).argmax(-1))

    for _ in range(2):
        for batch in cstorch.utils.data.DataExecutor(loader(), 3):
            step(batch)
        assert float(model.accuracy) == 1.0 and float(loose) == 1.0
        assert int(model.accuracy.total_num_tokens) == 6
        model.accuracy.reset()
        loose.reset()
    states = [b.cell.state for b in (*model.buffers(), *loose.buffers())]
    assert [s.rpartition(".")[0] for s in states] == ["model.accuracy"] * 2 + ["metrics.loose.0"] * 2


def test_one_prepared_model_is_called_in_a_loop_and_another_in_the_next():
    first, second = (cstorch.compile(nn.Linear(3, 1)) for _ in range(2))

    def loop(*models):
        step = cstorch.trace(lt.no_grad()(lambda batch: sum(m(batch[0]) for m in models)))
        for batch in cstorch.utils.data.DataExecutor(loader(), 2):
            cstorch.step_closure(lambda out: None)(step(batch))

    loop(first)
    loop(second, second)
    with pytest.raises(RuntimeError, match="more than one compiled model"):
        loop(first, second)


def test_a_loop_that_is_left_keeps_what_its_steps_have_trained(tmp_path):
    class Left(Exception):
        pass

    def leave_before_the_third_step(whole):
        if len(whole.seen) == 2:
            raise Left

    left, done = Run(), Run()
    done.model.load_state_dict({k: v.clone() for k, v in left.model.state_dict().items()})
    with pytest.raises(Left):
        left.loop(6, checkpoint_steps=1, after=leave_before_the_third_step)
    done.loop(2, checkpoint_steps=1)
    assert weight(left) == weight(done)


def test_a_tensor_of_the_client_is_a_constant_of_the_step_and_stays_readable_outside_of_it():
    """The limitations page: tensors created outside tracing work, as their values are readily available."""
    pi, gamma, whole = lt.tensor(3.5), lt.tensor(0.5), Run()
    seen = []

    @cstorch.trace
    def step(batch):
        loss = whole.compiled(batch[0]).sum() * pi.item()
        loss = lt.add(loss, loss, alpha=gamma) if gamma < 1 else loss
        seen.append(float(pi * 2))
        return loss

    for number in range(2):
        for batch in cstorch.utils.data.DataExecutor(loader(), 2):
            cstorch.step_closure(lambda loss: seen.append((pi.item(), gamma.item(), loss.item())))(step(batch))
        assert (pi.item(), gamma.item()) == (3.5, 0.5 / 2**number)
        # Between two executions the script may change it, whether or not there was a checkpoint.
        gamma.fill_(0.25)
    first, second = seen[:3], seen[3:]
    assert first[0] == second[0] == 7.0
    assert [one[:2] for one in (*first[1:], *second[1:])] == [(3.5, 0.5)] * 2 + [(3.5, 0.25)] * 2
    for before, after in zip(first[1:], second[1:], strict=True):
        assert after[2] == pytest.approx(before[2] * 1.25 / 1.5, rel=1e-2)


@pytest.mark.parametrize(
    "tensor",
    [lambda whole, x: x, lambda whole, x: whole.model.weight, lambda whole, x: x * lt.tensor(2.0)],
)
def test_a_tensor_of_the_wafer_is_not_read_in_the_step(tensor):
    whole = Run()

    @cstorch.trace
    def step(batch):
        return tensor(whole, whole.compiled(batch[0])).sum().item()

    with pytest.raises(RuntimeError, match="needs the value of a"):
        for batch in cstorch.utils.data.DataExecutor(loader(), 1):
            step(batch)
