"""Objects with `__torch_function__`, which are no tensors, as arguments of functions."""

import pytest

import lazytensor as lt
from lazytensor.nn import functional


class Wrapped:
    """Values with a tag, as containers of tensors are."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is lt.sort:
            return NotImplemented

        def bare(x):
            return [bare(v) for v in x] if isinstance(x, list | tuple) else getattr(x, "value", x)

        return cls(function(*bare(args), **(kwargs or {})))


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (lt.stack, ([lt.ones(2), lt.zeros(2)],), {"dim": 1}),
        (lt.cat, ([lt.ones(2), lt.zeros(2)],), {}),
        (lt.sum, (lt.ones(2, 3), 1), {}),
        (lt.mul, (lt.ones(2), lt.tensor([2.0, 3.0])), {}),
        (lt.where, (lt.tensor([True, False]), lt.ones(2), lt.zeros(2)), {}),
        (functional.relu, (lt.tensor([-1.0, 2.0]),), {}),
        (functional.softmax, (lt.ones(3),), {"dim": 0}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_method_of_an_argument_replaces_the_function(function, args, kwargs):
    def wrap(x):
        return [wrap(v) for v in x] if isinstance(x, list) else Wrapped(x) if isinstance(x, lt.Tensor) else x

    answer = function(*map(wrap, args), **kwargs)
    assert isinstance(answer, Wrapped)
    assert answer.value.tolist() == function(*args, **kwargs).tolist()


def test_a_function_that_the_class_does_not_have_is_an_error_of_the_line():
    with pytest.raises(TypeError, match=r"no implementation found for 'sort' .*\[Wrapped\]"):
        lt.sort(Wrapped(lt.ones(2)))
    with pytest.raises(TypeError):
        lt.stack([object()])
