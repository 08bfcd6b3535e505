"""Hooks of optimizers. Expected calls and numbers were recorded from PyTorch 2.13.0."""

import pytest

import lazytensor as lt
from lazytensor import optim
from lazytensor.optim import eager
from lazytensor.optim.traced import step_hooks


def optimizer(kind=eager.SGD):
    p = lt.ones(2).requires_grad_()
    (p * p).sum().backward()
    return p, kind([p], lr=0.1)


@pytest.mark.parametrize("kind", [eager.SGD, optim.SGD])
def test_a_step_is_between_its_hooks(kind):
    p, o = optimizer(kind)
    seen = []
    before = o.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", args == (o,), kwargs, p.tolist())))
    o.register_step_post_hook(lambda o, args, kwargs: seen.append(("post", [round(v, 3) for v in p.tolist()])))
    o.step()
    before.remove()
    o.step()
    assert seen == [("pre", True, {}, [1.0, 1.0]), ("post", [0.8, 0.8]), ("post", [0.6, 0.6])]


def test_hooks_of_all_optimizers_are_around_those_of_one():
    _, o = optimizer(eager.Adam)
    calls = []
    handles = [
        step_hooks.register_optimizer_step_pre_hook(lambda *_: calls.append("pre")),
        step_hooks.register_optimizer_step_post_hook(lambda *_: calls.append("post")),
    ]
    o.register_step_pre_hook(lambda *_: calls.append("own"))
    o.step()
    assert calls == ["pre", "own", "post"]
    handles[0].remove()
    step_hooks.forget()
    o.step()
    assert calls == ["pre", "own", "post", "own"]


def test_a_hook_may_replace_the_arguments_of_a_step():
    _, o = optimizer()
    calls = []
    o.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: calls.append(1)), {}))
    o.step()
    assert calls == [1]
    o.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"):
        o.step()


def test_a_step_inside_of_a_step_has_no_hooks_of_its_own():
    class Twice(eager.SGD):
        def step(self, closure=None):
            super().step()
            return super().step()

    p, o = optimizer(Twice)
    calls = []
    o.register_step_post_hook(lambda *_: calls.append(1))
    o.step()
    assert calls == [1] and [round(v, 3) for v in p.tolist()] == [0.6, 0.6]


def test_state_dicts_pass_hooks_on_their_way_out_and_in():
    _, o = optimizer(eager.AdamW)
    calls = []
    o.register_state_dict_pre_hook(lambda o: calls.append("before saving"))
    o.register_state_dict_post_hook(lambda o, state: {**state, "x": 1})
    o.register_load_state_dict_pre_hook(
        lambda o, state: {**state, "param_groups": [{**state["param_groups"][0], "lr": 7.0}]}
    )
    o.register_load_state_dict_post_hook(lambda o: calls.append(o.param_groups[0]["lr"]))
    state = o.state_dict()
    assert sorted(state) == ["param_groups", "state", "x"]
    o.load_state_dict(state)
    assert calls == ["before saving", 7.0] and state["param_groups"][0]["lr"] == 0.1
