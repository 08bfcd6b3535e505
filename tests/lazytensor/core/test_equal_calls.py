"""Results of equal calls, and copies, are different points of the graph outside of steps, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")

F = torch.nn.functional
CALLS: dict[str, Callable[[Any], Any]] = {
    "clone": lambda x: x.clone(),
    "clone of a view": lambda x: x.view(-1).clone(),
    "contiguous copy": lambda x: x.reshape(1, 3).expand(2, 3).contiguous(),
    "copy by to": lambda x: x.to(torch.float32, copy=True),
    "other type": lambda x: x.double(),
    "sum with zero": lambda x: x + 0,
    "product with one": lambda x: x * 1,
    "exp": lambda x: x.exp(),
    "relu": F.relu,
    "mean": lambda x: x.mean(),
    "concatenation of one": lambda x: torch.cat([x]),
    "product": lambda x: x @ x,
}


def _leaf() -> Any:
    return torch.tensor([0.5, -0.25, 1.5]).requires_grad_()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_equal_calls_do_not_depend_on_each_other(call: Callable[[Any], Any], is_leaf: bool) -> None:
    x = _leaf() if is_leaf else _leaf() * 2
    first, second = call(x), call(x)
    for output, other in ((first, second), (second, first), (x, first)):
        assert torch.autograd.grad(output.sum(), other, allow_unused=True, retain_graph=True) == (None,)
    assert torch.autograd.grad(second.sum(), x)[0] is not None


def test_hook_of_one_result_is_not_called_for_an_equal_one() -> None:
    x, seen = _leaf(), []
    first, second = x.exp(), x.exp()
    first.register_hook(lambda g: seen.append("first"))
    first.retain_grad()
    second.sum().backward()
    assert (seen, first.grad) == ([], None)


def test_gradient_of_a_copy_is_that_of_its_own_uses() -> None:
    x = _leaf() * 2
    copy = x.clone()
    [gradient] = torch.autograd.grad(torch.stack([x * copy, copy]).sum(), copy)
    assert gradient.tolist() == (x + 1).tolist()


def test_graphs_of_equal_calls_are_used_up_separately() -> None:
    x = _leaf()
    first, second = x.exp(), x.exp()
    first.sum().backward()
    second.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        first.sum().backward()
