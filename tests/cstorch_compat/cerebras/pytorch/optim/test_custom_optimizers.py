"""Optimizers that users write: the step that is counted for them, and the hooks around their calls."""

import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn
from lazytensor.errors import StateError

cstorch = get_mirror("cerebras.pytorch")
optim = get_mirror("cerebras.pytorch.optim")


@pytest.fixture(autouse=True, params=["CPU", "CSX"])
def backend(request, monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    return cstorch.backend(request.param, artifact_dir=tmp_path)


class Counted(optim.Optimizer):
    """Lowers parameters by their gradient over the number of the step."""

    def __init__(self, params, counts=True):
        super().__init__(params, {"lr": 1.0}, enable_global_step=counts)

    def preinitialize(self):
        for p in self._parameters():
            self.state[p]["sum"] = cstorch.zeros_like(p)

    def step(self, closure=None):
        with lt.no_grad():
            for p in self._parameters():
                p.sub_(p.grad / self.increment_global_step(p))


def test_the_counted_step_is_returned_and_loop_carried():
    model = nn.Linear(2, 1, bias=False)
    compiled, optimizer = cstorch.compile(model), Counted(model.parameters())
    seen = []

    @cstorch.trace
    def step(batch):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        compiled(batch[0]).sum().backward()
        optimizer.step()
        return before - model.weight

    for batch in cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(lambda: [(lt.ones(1, 2),)] * 3), 3):
        cstorch.step_closure(lambda moved: seen.append(moved.flatten().tolist()[0]))(step(batch))
    assert seen == pytest.approx([1, 1 / 2, 1 / 3], rel=1e-5)


def test_the_state_of_a_counted_step_is_called_as_in_the_original():
    assert list(Counted([nn.Parameter(lt.ones(2))]).state_dict()["state"][0]) == ["sum", "step"]


def test_counting_steps_has_to_be_asked_for():
    p = nn.Parameter(lt.ones(2))
    with pytest.raises(StateError, match="enable_global_step=True"):
        Counted([p], counts=False).increment_global_step(p)


def test_hooks_are_called_around_their_calls_and_may_exchange_state_dicts():
    optimizer, calls = optim.SGD([nn.Parameter(lt.ones(2))], lr=0.1), []
    moments = ["zero_grad_pre", "zero_grad_post", "state_dict_pre", "load_state_dict_post"]
    handles = [getattr(optimizer, f"register_{m}_hook")(lambda *a, m=m: calls.append((m, len(a)))) for m in moments]
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "note": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, saved: {**saved, "param_groups": [{"params": [0], "lr": 0.7}]}
    )
    optimizer.zero_grad(set_to_none=False)
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert saved["note"] == 1
    assert optimizer.param_groups[0]["lr"] == 0.7
    assert calls == [("zero_grad_pre", 3), ("zero_grad_post", 3), ("state_dict_pre", 1), ("load_state_dict_post", 1)]
    for handle in handles:
        handle.remove()
    optimizer.zero_grad()
    assert len(calls) == 4


@pytest.mark.parametrize("missing", ["preinitialize", "step"])
def test_an_optimizer_without_state_or_step_is_abstract(missing):
    members = {name: vars(Counted)[name] for name in ("preinitialize", "step") if name != missing}
    kind = type("Mine", (optim.Optimizer,), members)
    with pytest.raises(TypeError, match=f"Can't instantiate abstract class Mine with abstract method {missing}"):
        kind([nn.Parameter(lt.ones(2))], {"lr": 0.1})
