"""The factor `alpha` of add, sub and rsub; the answers are PyTorch 2.13.0's."""

import pytest

import lazytensor as lt


@pytest.mark.parametrize("function", [lt.add, lt.sub, lt.rsub])
@pytest.mark.parametrize(
    ("values", "alpha", "message"),
    [
        ([1, 2], True, "Boolean alpha only supported for Boolean results."),
        ([1.0, 2.0], False, "Boolean alpha only supported for Boolean results."),
        ([1, 2], 1.0, "argument alpha must not be a floating point number"),
        ([1, 2], 0.5, "argument alpha must not be a floating point number"),
    ],
)
def test_alpha_of_another_kind_is_refused(function, values, alpha, message):
    with pytest.raises(RuntimeError, match=message):
        function(lt.tensor(values), 1, alpha=alpha)


def test_gradients_of_a_scaled_sum_are_the_scales():
    x, y = lt.ones(3, requires_grad=True), lt.ones(3, requires_grad=True)
    lt.sub(x, y, alpha=0.25).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0] * 3, [-0.25] * 3)
