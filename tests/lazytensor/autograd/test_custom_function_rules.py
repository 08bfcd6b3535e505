"""Custom functions follow PyTorch's rules for inputs that they change, for gradients and for saved tensors."""

from collections.abc import Callable
from typing import Any

import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")


def _function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Custom", (torch.autograd.Function,), members)


def _doubled(ctx: Any, x: Any, y: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def _unreturned(ctx: Any, x: Any, y: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return y * 1


Doubled = _function(_doubled, lambda ctx, g: (g * 2, None))


def _leaf() -> Any:
    return torch.tensor([0.5, -0.25]).requires_grad_()


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        (lambda x: x, "a leaf Variable that requires grad has been used in an in-place operation"),
        (lambda x: x[:1], "a view of a leaf Variable that requires grad is being used in an in-place operation"),
    ],
)
def test_leaf_that_requires_grad_cannot_be_dirty(operand: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        Doubled.apply(operand(_leaf()), torch.ones(2))


def test_gradient_of_a_dirty_input_passes_the_function() -> None:
    x = _leaf()
    v = x * 3
    out = Doubled.apply(v, torch.ones(2))
    assert out is v
    out.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_dirty_input_has_to_be_returned() -> None:
    with pytest.raises(RuntimeError, match="must all be outputs of the Function"):
        _function(_unreturned, lambda ctx, g: (None, g)).apply(_leaf() * 1, _leaf())


@pytest.mark.parametrize(
    ("answer", "arguments", "message"),
    [
        (lambda g: (g, g), (2.0,), "gradient different than None at position 2"),
        (lambda g: (1.0, None), (2.0,), r"expected Variable or None \(got float\)"),
        (lambda g: (g,), (2.0,), "incorrect number of gradients"),
    ],
)
def test_wrong_gradient_is_refused(answer: Any, arguments: Any, message: str) -> None:
    out = _function(lambda ctx, x, y: x * y, lambda ctx, g: answer(g)).apply(_leaf(), *arguments)
    with pytest.raises(RuntimeError, match=message):
        out.sum().backward()


def test_list_of_outputs_has_no_gradient() -> None:
    out = _function(lambda ctx, x: [x * 2], lambda ctx, g: g).apply(_leaf())
    assert isinstance(out, list)
    assert not out[0].requires_grad


def test_only_tensors_are_saved() -> None:
    function = _function(lambda ctx, x: ctx.save_for_backward(x, 3) or x * 2, lambda ctx, g: g)
    with pytest.raises(TypeError, match="can only save variables, but argument 1 is of type int"):
        function.apply(_leaf())


CHANGES: dict[str, tuple[Callable[..., Any], str]] = {
    "amax": (lambda v, w: v.amax(), "operand result"),
    "amin of a dimension": (lambda v, w: v.amin(dim=0), "operand result"),
    "max": (lambda v, w: v.max(), "operand result"),
    "prod": (lambda v, w: v.prod(0), "operand result"),
    "sum": (lambda v, w: v.sum(0), ""),
    "mean": (lambda v, w: v.mean(), ""),
    "quotient": (lambda v, w: v / w, "operand other"),
    "quotient of a number": (lambda v, w: v / 3, ""),
    "product with a row": (lambda v, w: v * w[0], "operand other"),
    "product with an element": (lambda v, w: v * w[0, 0], "operand other"),
    "product of other types": (lambda v, w: v * w.double(), "operand"),
    "sum of two": (lambda v, w: v + w[0], ""),
    "round": (lambda v, w: v.round(), ""),
    "floor": (lambda v, w: v.floor(), ""),
}
"""By name: a function of two matrices, and what PyTorch saves for its backward."""


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("changed", ["operand", "other", "result"])
def test_changes_of_saved_tensors_are_refused(name: str, changed: str) -> None:
    function, saved = CHANGES[name]
    v, w = (torch.tensor([[0.5, 2.0], [1.5, 0.25]]).requires_grad_() * 1 for _ in range(2))
    out = function(v, w)
    {"operand": v, "other": w, "result": out}[changed].add_(1)
    if changed in saved:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
    else:
        out.sum().backward()
