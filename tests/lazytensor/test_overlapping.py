"""Writes through views that overlap; every answer was recorded from PyTorch 2.13.0."""

import pytest

import lazytensor as lt
from lazytensor.errors import ShapeError


def six():
    return lt.arange(6.0)


def changed(x, write):
    write(x)
    return x.tolist()


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: x.unfold(0, 3, 1)[0].__setitem__(2, 50), [0, 1, 50, 3, 4, 5]),
        (lambda x: x.unfold(0, 3, 1).__setitem__(1, 50), [0, 50, 50, 50, 4, 5]),
        (lambda x: x.unfold(0, 3, 1)[:, 0].mul_(10), [0, 10, 20, 30, 4, 5]),
        (lambda x: x.as_strided((2, 3), (1, 1))[1].__setitem__(2, 9), [0, 1, 2, 9, 4, 5]),
        (lambda x: x.expand(2, 6)[1].mul_(5), [0, 5, 10, 15, 20, 25]),
        (lambda x: x.unfold(0, 2, 2).add_(1), [1, 2, 3, 4, 5, 6]),
        (lambda x: x[1:].add_(x[1:]), [0, 2, 4, 6, 8, 10]),
        (lambda x: x[:3].add_(x[3:]), [3, 5, 7, 3, 4, 5]),
        (lambda x: x[::2].add_(x[1::2]), [1, 1, 5, 3, 9, 5]),
    ],
)
@pytest.mark.parametrize("is_shared", [False, True])
def test_write_reaches_the_elements_that_the_view_shows(write, expected, is_shared):
    x = six()
    array = x.numpy() if is_shared else None
    assert changed(x, write) == expected
    assert array is None or array.tolist() == expected


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x.__setitem__(slice(1, None), x[:-1]),
        lambda x: x.mul_(x[-1]),
        lambda x: x.view(3, 2)[1:].add_(x.view(3, 2)[:-1]),
        lambda x: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
    ],
)
def test_operand_that_is_partly_written_is_refused(write):
    with pytest.raises(ShapeError, match="refer to a single memory location"):
        write(six())


def test_several_results_for_one_element_are_refused():
    for view in (lambda x: x.expand(2, 6), lambda x: x.unfold(0, 3, 1)):
        with pytest.raises(ShapeError, match="more than one element of the written-to tensor"):
            view(six()).add_(six().sum())


def test_gradient_passes_beside_what_was_written_to_a_window():
    w = six().requires_grad_()
    x = w * 1
    x.unfold(0, 3, 1)[0, 2] = 50
    (x * x).sum().backward()
    assert w.grad.tolist() == [0, 2, 0, 6, 8, 10]
