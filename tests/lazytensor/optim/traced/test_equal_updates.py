"""Updates of equal parameters: written out, calls of a function are the nodes that the optimizer's own code records."""

import pytest

import lazytensor as lt
from lazytensor.core import abstract_step
from lazytensor.ir.graph_function import inline_calls
from lazytensor.optim.traced import optimizer as traced

LAYERS = 4
SETTINGS = {"Adam": {"weight_decay": 0.1, "amsgrad": True}, "SGD": {"momentum": 0.9, "nesterov": True}}
RULES = [name for name in lt.optim.__all__ if issubclass(getattr(lt.optim, name, object), lt.optim.Optimizer)]


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("Optimizer", "Muon")])
def test_update_as_a_function_is_what_the_rule_records(name, monkeypatch):
    with abstract_step.mode():
        model = lt.nn.Sequential(*(lt.nn.Linear(4, 4) for _ in range(LAYERS)))
        rule = getattr(lt.optim, name)(model.parameters(), lr=0.1, **SETTINGS.get(name, {}))
    x = abstract_step.tensor((2, 4))
    calls = []
    update = type(rule).update
    monkeypatch.setattr(type(rule), "update", lambda self, *args: (calls.append(args), update(self, *args))[1])

    def step():
        model(x).square().sum().backward()
        rule.step()
        rule.zero_grad()

    graph = inline_calls(abstract_step.graph_of_step(step, {"x": x}))
    # One for weights and one for biases; the first layer's gradient comes as the others' do.
    assert len(calls) == 2
    # Nodes are interned, so that equal ones are the same; and gradients remember their updates.
    for n in graph.nodes():
        n.memo = None
    monkeypatch.setattr(traced, "function_of", lambda *update: None)
    assert inline_calls(abstract_step.graph_of_step(step, {"x": x})).updates == graph.updates
    assert len(calls) == 2 + 2 * LAYERS


def test_updates_that_are_traced_again_are_found_and_others_are_asked_for(monkeypatch):
    with abstract_step.mode():
        model = lt.nn.Sequential(lt.nn.Linear(4, 4), lt.nn.Linear(4, 3))
        first, last = (list(layer.parameters()) for layer in model.children())
        rule = lt.optim.SGD([{"params": first}, {"params": last, "lr": 0.5}], lr=0.1, momentum=0.9)
    x = abstract_step.tensor((2, 4))
    calls = []
    update = lt.optim.SGD.update
    monkeypatch.setattr(lt.optim.SGD, "update", lambda self, *args: (calls.append(args), update(self, *args))[1])

    def step(skipped=None):
        model(x).square().sum().backward()
        if skipped is not None:
            skipped.grad = None
        rule.step()
        rule.zero_grad()

    graph = inline_calls(abstract_step.graph_of_step(step, {"x": x}))
    assert len(graph.updates) == 8 and len(calls) == 4
    assert inline_calls(abstract_step.graph_of_step(step, {"x": x})).updates == graph.updates
    assert len(calls) == 4
    fewer = inline_calls(abstract_step.graph_of_step(lambda: step(last[1]), {"x": x})).updates
    assert {name: n for name, n in graph.updates.items() if name in fewer} == fewer and len(fewer) == 6
    # A setting that changes is another question.
    rule.param_groups[0]["lr"] = 0.2
    changed = inline_calls(abstract_step.graph_of_step(step, {"x": x})).updates
    assert sum(changed[name] is n for name, n in graph.updates.items()) == 6
