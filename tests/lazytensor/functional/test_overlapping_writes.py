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
        (lambda x: x[:-2:2].add_(x[2::2]), [2, 1, 6, 3, 4, 5]),
        (lambda x: x.expand(2, 6).zero_(), [0] * 6),
        (lambda x: x.expand(2, 6)[:, 1:].fill_(7), [0, 7, 7, 7, 7, 7]),
        (lambda x: x.unfold(0, 3, 1).zero_(), [0] * 6),
        (lambda x: x.expand(2, 6).masked_fill_(lt.tensor([[True, False] * 3, [False] * 6]), 9), [9, 1, 9, 3, 9, 5]),
        (lambda x: x.expand(2, 6).masked_fill_(x > 3, 9), [0, 1, 2, 3, 9, 9]),
        (lambda x: x.expand(2, 6).__setitem__(lt.arange(12).view(2, 6) == 8, 9), [0, 1, 9, 3, 4, 5]),
        (lambda x: x.unfold(0, 2, 1).__setitem__([0, 2], 9), [9, 9, 9, 9, 4, 5]),
        (lambda x: x.expand(2, 6).index_fill_(1, lt.tensor([1]), 9), [0, 9, 2, 3, 4, 5]),
        (lambda x: x.expand(1, 6).index_put_((lt.tensor([0]),), lt.ones(6), accumulate=True), [1, 2, 3, 4, 5, 6]),
        (lambda x: x.view(2, 3).index_fill_(0, lt.tensor([0]), x[5]), [5, 5, 5, 3, 4, 5]),
        (lambda x: x.masked_fill_(x > 3, x[1]), [0, 1, 2, 3, 1, 1]),
        (lambda x: x.__setitem__(slice(None), x[1]), [1] * 6),
        (lambda x: x.__setitem__(slice(None), x[1:2]), [1] * 6),
        (lambda x: x.view(2, 3).__setitem__(slice(None), x.view(2, 3)[0]), [0, 1, 2, 0, 1, 2]),
        (lambda x: x.__setitem__((None, slice(0, None)), x), [0, 1, 2, 3, 4, 5]),
        (lambda x: x.view(6, 1).__setitem__(slice(None), x.view(6, 1)[3]), [3] * 6),
        (lambda x: x.view(2, 3).__setitem__(slice(None), x.view(2, 3)[1:]), [3, 4, 5, 3, 4, 5]),
        (lambda x: x.view(1, 6)[::2].__setitem__(slice(None), x.view(1, 6)[::2]), [0, 1, 2, 3, 4, 5]),
        (lambda x: x.view(1, 6).__setitem__(slice(None, None, 2), x.view(1, 6)[::2].mul_(2)), [0, 2, 4, 6, 8, 10]),
        (lambda x: lt.add(x, x, out=x), [0, 2, 4, 6, 8, 10]),
        (lambda x: lt.cat([x[:3]], out=x[3:]), [0, 1, 2, 0, 1, 2]),
        (lambda x: x.__setitem__([0], x[[1]]), [1, 1, 2, 3, 4, 5]),
        (lambda x: x.__setitem__(x > 3, x[1]), [0, 1, 2, 3, 1, 1]),
        (lambda x: x.view(2, 3).__setitem__((0, [0, 1]), x[4:]), [4, 5, 2, 3, 4, 5]),
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
        lambda x: x.unsqueeze(0).mul_(x),
        lambda x: x[0].unsqueeze(-1).addcdiv_(x[0], x[0]),
        lambda x: x.unsqueeze(0).copy_(x),
        lambda x: x.view(6, 1).t().add_(x.view(1, 6)),
        lambda x: x.__setitem__([1, 0, 2, 3, 4, 5], x),
        lambda x: x.__setitem__([0], x[5]),
        lambda x: (t := lt.ones(1, 1)).__setitem__(None, t),
        lambda x: (t := lt.ones(1, 1)).__setitem__(-1, t),
        lambda x: (t := lt.ones(2, 0)).__setitem__([0, 1], t),
        lambda x: x.__setitem__(x > 3, x[1:3]),
        lambda x: x.index_put_((lt.tensor([0]),), x[5]),
        lambda x: x.index_copy_(0, lt.arange(6), x),
        lambda x: x.index_add_(0, lt.arange(6), x.data),
        lambda x: x.scatter_(0, lt.tensor([0, 1]), x[2:]),
        lambda x: x.scatter_add_(0, lt.tensor([0, 1]), x),
        lambda x: (m := x > 2).masked_fill_(m[:1], True),
        lambda x: x[:1][::2].__setitem__(slice(None), x[:1]),
        lambda x: lt.add(x[1:], 1, out=x[:-1]),
        lambda x: lt.exp(x[1:], out=x[:-1]),
        lambda x: lt.cat([x[3:], x[:3]], out=x),
        lambda x: (i := lt.tensor([1, 0, 1])).__setitem__(i, 7),
        lambda x: (i := lt.tensor([1, 0, 1])).index_fill_(0, i, 7),
    ],
)
def test_operand_that_is_partly_written_is_refused(write):
    with pytest.raises(ShapeError, match="refer to a single memory location"):
        write(six())


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.view(2, 3)[:, 1:].add_(x.view(2, 3)[:, :-1]),
        lambda x: x[2::2].copy_(x[:-2:2]),
        lambda x: x.view(2, 3).__setitem__((slice(None), slice(1, None)), x.view(2, 3)[:, :-1]),
    ],
)
def test_result_that_depends_on_the_order_of_a_loop_is_refused(write):
    with pytest.raises(ShapeError, match="depends on the order of PyTorch's loop"):
        write(six())


def test_several_results_for_one_element_are_refused():
    for view in (lambda x: x.expand(2, 6), lambda x: x.unfold(0, 3, 1)):
        with pytest.raises(ShapeError, match="more than one element of the written-to tensor"):
            view(six()).add_(six().sum())
    for write in (lambda y: y.copy_(lt.ones(6)), lambda y: y.fill_(lt.ones(())), lambda y: y.__setitem__(slice(2), 5)):
        with pytest.raises(ShapeError, match="more than one element of the written-to tensor"):
            write(six().expand(2, 6))


def test_gradient_passes_beside_what_was_filled_in_an_expanded_view():
    w = six().requires_grad_()
    x = w * 2
    x.expand(2, 6).masked_fill_(w > 3, 0)
    x.sum().backward()
    assert w.grad.tolist() == [2, 2, 2, 2, 0, 0]


def test_gradient_passes_beside_what_was_written_to_a_window():
    w = six().requires_grad_()
    x = w * 1
    x.unfold(0, 3, 1)[0, 2] = 50
    (x * x).sum().backward()
    assert w.grad.tolist() == [0, 2, 0, 6, 8, 10]


def test_windows_of_a_turned_view_have_its_strides():
    x = lt.arange(12.0).reshape(3, 4)
    windows = x.t().unfold(0, 2, 1)
    assert windows.shape == (3, 3, 2) and windows.stride() == (1, 4, 1)
    assert windows[1].tolist() == [[1.0, 2.0], [5.0, 6.0], [9.0, 10.0]]
    windows[0].mul_(-1)
    assert x[:, :2].flatten().tolist() == [0.0, -1.0, -4.0, -5.0, -8.0, -9.0]
    assert x[:, 1:].unfold(1, 2, 2).storage_offset() == 1


def test_places_that_are_written_are_not_read():
    x = lt.arange(12.0).reshape(3, 4)
    with pytest.raises(ShapeError, match="depends on the order"):
        x[:, :3][[0, 1]] = x[:, :3].diagonal()
    x[[0, 1], 0] = x[:2, 3]
    assert x[:, 0].tolist() == [3.0, 7.0, 8.0]


def test_lerp_of_half_types_takes_no_other_type():
    with pytest.raises(RuntimeError, match="expected dtype"):
        lt.ones(1, dtype=lt.float16).lerp(lt.tensor(1.0), 0.25)
