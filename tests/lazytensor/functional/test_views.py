"""Rearrangements against NumPy's; views share storage, copies do not."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt

shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)
few = settings(max_examples=40, deadline=None)


def counted(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def assert_equal(got: lt.Tensor, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got.numpy(), want)
    assert got.shape == want.shape


@few
@given(shapes, st.data())
def test_movedim_and_its_relatives_are_numpys(shape, data):
    array, rank = counted(shape), len(shape)
    x = lt.from_numpy(array.copy())
    dims = st.integers(-rank, rank - 1)
    a, b = data.draw(dims), data.draw(dims)
    assert_equal(lt.movedim(x, a, b), np.moveaxis(array, a, b))
    assert_equal(lt.swapaxes(x, a, b), np.swapaxes(array, a, b))
    order = data.draw(st.permutations(range(rank)))
    assert_equal(x.moveaxis(list(range(rank)), order), np.moveaxis(array, range(rank), order))
    assert_equal(x.ravel(), array.ravel())


@few
@given(shapes, st.data())
def test_splits_are_numpys(shape, data):
    array = counted(shape)
    x, at = lt.from_numpy(array.copy()), data.draw(st.integers(0, len(shape) - 1))
    cuts = data.draw(st.one_of(st.integers(1, 6), st.lists(st.integers(-5, 6), max_size=3)))
    parts = lt.tensor_split(x, cuts, at)
    if isinstance(cuts, int):
        want = np.array_split(array, cuts, at)
    else:
        places = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        want = [array[(slice(None),) * at + (p,)] for p in places]
    assert len(parts) == len(want)
    for got, expected in zip(parts, want, strict=True):
        assert_equal(got, expected)


@few
@given(shapes, st.lists(st.integers(0, 3), max_size=5))
def test_tile_is_numpys(shape, times):
    assert_equal(lt.tile(lt.from_numpy(counted(shape)), tuple(times)), np.tile(counted(shape), times))


@few
@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_stacks_are_numpys(rank, rows, count):
    arrays = [np.asarray(counted((rows, 2, 2)[:rank]) + 10 * i) for i in range(count)]
    tensors = [lt.from_numpy(a) for a in arrays]
    assert_equal(lt.hstack(tensors), np.hstack(arrays))
    assert_equal(lt.vstack(tensors), np.vstack(arrays))
    assert_equal(lt.dstack(tensors), np.dstack(arrays))
    assert_equal(lt.column_stack(tensors), np.column_stack(arrays))
    assert [t.shape for t in lt.atleast_3d(*tensors, tensors[0])[:count]] == [np.atleast_3d(a).shape for a in arrays]


@few
@given(st.lists(st.integers(0, 3), min_size=2, max_size=3), st.data())
def test_padding_is_numpys_and_negative_widths_cut(shape, data):
    array = counted(tuple(shape))
    widths = [data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape]
    padded = lt.constant_pad_nd(lt.from_numpy(array), [w for pair in reversed(widths) for w in pair], 7.0)
    assert_equal(padded, np.pad(array, widths, constant_values=7))
    back = lt.constant_pad_nd(padded, [-w for pair in reversed(widths) for w in pair])
    assert_equal(back, array)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids_are_numpys(indexing):
    arrays = [np.arange(n, dtype=np.float32) for n in (2, 3, 4)]
    for got, want in zip(
        lt.meshgrid(*map(lt.from_numpy, arrays), indexing=indexing),
        np.meshgrid(*arrays, indexing=indexing),
        strict=True,
    ):
        assert_equal(got, want)
    pairs = lt.cartesian_prod(lt.tensor([1, 2]), lt.tensor([3, 4]))
    assert pairs.tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]


# -- views -----------------------------------------------------------------------------------------------------------

VIEWS: dict[str, tuple[Callable[[lt.Tensor], lt.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "diagonal": (lambda x: x.diagonal(1, 0, 2), lambda a: np.diagonal(a, 1, 0, 2)),
    "diagonal below": (lambda x: x.diagonal(-1, -2, 1), lambda a: np.diagonal(a, -1, -2, 1)),
    "diagonal of a transpose": (lambda x: x.transpose(0, 2).diagonal(), lambda a: np.diagonal(a.transpose(2, 1, 0, 3))),
    "unfold": (
        lambda x: x.unfold(1, 2, 1),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 1),
    ),
    "unfold of a slice": (
        lambda x: x[:, 1:].unfold(-1, 2, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a[:, 1:], 2, -1)[:, :, :, ::2],
    ),
    "movedim": (lambda x: x.movedim((0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0))),
    "unflatten": (lambda x: x.unflatten(1, (3, -1)), lambda a: a[:, :, None]),
    "tensor_split": (lambda x: x.tensor_split(2, 1)[1], lambda a: a[:, 2:]),
    "hsplit": (lambda x: x.hsplit(3)[1], lambda a: a[:, 1:2]),
    "narrow": (lambda x: x.narrow(1, -2, 1), lambda a: a[:, 1:2]),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(2, 3)),
    "as_strided": (lambda x: x.as_strided((2, 2), (12, 3), 5), lambda a: np.array([[5, 8], [17, 20]], np.float32)),
    "as_strided of a view": (lambda x: x[1:].mT.as_strided((2,), (3,)), lambda a: np.array([12, 15], np.float32)),
}


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_view_sees_the_places_that_numpys_sees(name):
    view, reference = VIEWS[name]
    assert_equal(view(lt.from_numpy(counted((2, 3, 2, 2)))), reference(counted((2, 3, 2, 2))))


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_writing_through_a_view_reaches_the_base(name):
    view, reference = VIEWS[name]
    x, want = lt.from_numpy(counted((2, 3, 2, 2))), counted((2, 3, 2, 2))
    places = reference(want.copy()).astype(int).ravel()
    view(x).fill_(-1)
    want.reshape(-1)[places] = -1
    assert_equal(x, want)


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_gradient_through_a_view_counts_how_often_a_place_is_seen(name):
    view, reference = VIEWS[name]
    x = lt.from_numpy(counted((2, 3, 2, 2))).requires_grad_()
    view(x).sum().backward()
    places = reference(counted((2, 3, 2, 2))).astype(int).ravel()
    np.testing.assert_array_equal(x.grad.numpy().ravel(), np.bincount(places, minlength=24))


COPIES = {
    "alias_copy": (),
    "diagonal_copy": (),
    "expand_copy": ((2, 2, 2),),
    "permute_copy": ((1, 0),),
    "split_with_sizes_copy": ([1, 1],),
    "squeeze_copy": (),
    "t_copy": (),
    "transpose_copy": (0, 1),
    "unbind_copy": (),
    "unfold_copy": (0, 2, 1),
    "unsqueeze_copy": (0,),
    "view_copy": ((4,),),
    "as_strided_copy": ((2,), (1,)),
}


@pytest.mark.parametrize("name", sorted(COPIES))
def test_copies_have_the_values_of_the_view_and_their_own_storage(name):
    x = lt.from_numpy(counted((2, 2)))
    copied = getattr(lt, name)(x, *COPIES[name])
    view = getattr(lt, name.removesuffix("_copy"), None) or getattr(lt.Tensor, name.removesuffix("_copy"), None)
    want = x if view is None else view(x, *COPIES[name])
    for got, seen in zip(*((t if isinstance(t, tuple) else (t,)) for t in (copied, want)), strict=True):
        assert_equal(got, seen.numpy())
        got.fill_(-1)
    assert_equal(x, counted((2, 2)))


def test_scatters_write_into_a_copy():
    x = lt.zeros(3, 3)
    one = lt.ones(3)
    assert_equal(lt.diagonal_scatter(x, one), np.eye(3, dtype=np.float32))
    assert lt.select_scatter(x, one, 1, -1).sum(0).tolist() == [0, 0, 3]
    assert lt.slice_scatter(x, lt.ones(2, 3), 0, 0, None, 2).sum(1).tolist() == [3, 0, 3]
    assert lt.as_strided_scatter(x, lt.ones(2), (2,), (4,), 1).nonzero().tolist() == [[0, 1], [1, 2]]
    assert x.sum().item() == 0


def test_strides_are_those_of_the_storage():
    x = lt.arange(12).view(3, 4).t()[1:]  # recorded from PyTorch 2.13: (1, 4) and 1
    assert (x.stride(), x.storage_offset(), x.stride(-1)) == ((1, 4), 1, 4)


@few
@given(st.integers(1, 4), st.integers(-2, 2), st.integers(1, 3))
def test_diag_embed_puts_what_diagonal_takes(extent, offset, stack):
    x = lt.from_numpy(counted((stack, extent)))
    assert_equal(lt.diag_embed(x, offset).diagonal(offset, -2, -1), counted((stack, extent)))
    assert_equal(lt.diag(x[0], offset), np.diag(counted((extent,)), offset))
    assert lt.diag_embed(x)[0].trace().item() == counted((extent,)).sum()


@few
@given(st.integers(0, 5), st.integers(0, 5), st.integers(-3, 3))
def test_triangle_places_are_numpys(rows, columns, offset):
    assert_equal(lt.tril_indices(rows, columns, offset), np.stack(np.tril_indices(rows, offset, columns)))
    assert_equal(lt.triu_indices(rows, columns, offset), np.stack(np.triu_indices(rows, offset, columns)))


@few
@given(shapes, st.data())
def test_sum_to_size_undoes_expand(shape, data):
    small = tuple(data.draw(st.sampled_from((1, e))) for e in shape)
    small = small[data.draw(st.integers(0, len(shape))) :]
    array = counted(shape)
    got = lt.from_numpy(array).sum_to_size(small)
    lead = len(shape) - len(small)
    axes = tuple(d for d in range(len(shape)) if d < lead or (small[d - lead] == 1 != shape[d]))
    np.testing.assert_allclose(got.numpy(), array.sum(axes).reshape(small), rtol=1e-6)


def test_an_empty_vector_joins_anything():
    x = lt.ones(2, 3)
    assert lt.cat([lt.tensor([]), x], 1).shape == (2, 3)
    assert lt.cat([lt.tensor([]), lt.tensor([])]).shape == (0,)


def test_block_diag_and_logspace():
    blocks = lt.block_diag(lt.tensor(5), lt.tensor([1, 2]), lt.ones(2, 1, dtype=lt.int64))
    assert blocks.tolist() == [[5, 0, 0, 0], [0, 1, 2, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
    np.testing.assert_allclose(lt.logspace(-1, 2, 4).numpy(), [0.1, 1, 10, 100], rtol=1e-6)
    assert lt.logspace(0, 3, 4, 2, dtype=lt.int64).tolist() == [1, 2, 4, 8]


def test_factories_take_keywords_and_tensors_of_one_number():
    assert lt.zeros(size=(2, 3)).shape == lt.ones(size=[2, 3]).shape == (2, 3)
    assert lt.arange(lt.tensor(3)).dtype is lt.int64
    assert lt.arange(end=4).tolist() == [0, 1, 2, 3]
    assert lt.linspace(lt.tensor(0), 1, 3, requires_grad=True).requires_grad
    x = lt.from_numpy(counted((2, 3)))
    assert x.permute(dims=(1, 0)).shape == x.reshape(shape=(3, 2)).shape == x.view(size=(3, 2)).shape == (3, 2)


ERRORS = {
    "movedim twice the same": (lambda: lt.movedim(lt.ones(2, 3), (0, 0), (0, 1)), RuntimeError),
    "movedim outside": (lambda: lt.movedim(lt.ones(2), 1, 0), IndexError),
    "unflatten of another size": (lambda: lt.ones(4).unflatten(0, (3, 2)), RuntimeError),
    "hsplit that is uneven": (lambda: lt.hsplit(lt.ones(2, 3), 2), RuntimeError),
    "vsplit of a vector": (lambda: lt.vsplit(lt.ones(2), 2), RuntimeError),
    "tensor_split of a number": (lambda: lt.tensor_split(lt.tensor(1), 2), RuntimeError),
    "diagonal of one dimension": (lambda: lt.diagonal(lt.ones(2, 2), 0, 1, 1), RuntimeError),
    "diag of three dimensions": (lambda: lt.diag(lt.ones(2, 2, 2)), RuntimeError),
    "unfold beyond the extent": (lambda: lt.ones(3).unfold(0, 4, 1), RuntimeError),
    "as_strided beyond the storage": (lambda: lt.ones(3).as_strided((2,), (3,)), RuntimeError),
    "scatter of another shape": (lambda: lt.diagonal_scatter(lt.ones(2, 2), lt.ones(3)), RuntimeError),
    "meshgrid of two dtypes": (lambda: lt.meshgrid(lt.ones(2), lt.arange(2)), RuntimeError),
    "sum_to_size that does not expand": (lambda: lt.ones(2, 3).sum_to_size(2, 2), RuntimeError),
    "stack of nothing": (lambda: lt.stack([]), RuntimeError),
    "cat of numbers": (lambda: lt.cat([lt.tensor(1), lt.tensor(2)]), RuntimeError),
    "no chunks": (lambda: lt.chunk(lt.ones(3), 0), RuntimeError),
    "pieces of no size": (lambda: lt.split(lt.ones(3), 0), RuntimeError),
    "eye of a negative size": (lambda: lt.eye(-1), RuntimeError),
    "linspace of a negative count": (lambda: lt.linspace(0, 1, -1), RuntimeError),
    "mT of a vector": (lambda: lt.ones(2).mT, RuntimeError),
    "padding below nothing": (lambda: lt.constant_pad_nd(lt.ones(2), (-2, -1)), RuntimeError),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_wrong_use_is_refused_as_pytorch_does(name):
    action, kind = ERRORS[name]
    with pytest.raises(kind):
        action()


@pytest.mark.parametrize("name", ["expand", "broadcast_to"])
def test_sizes_are_numbers_or_a_sequence_or_a_keyword(name):
    method = getattr(lt.ones(3), name)
    assert method(2, 3).shape == method((2, 3)).shape == method(size=[2, 3]).shape == (2, 3)


@given(st.data())
def test_reshape_of_a_view_is_a_view_where_numpy_finds_one(data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=4))
    order = data.draw(st.permutations(range(len(shape))))
    cut = data.draw(st.integers(1, shape[order[0]]))
    array = np.arange(np.prod(shape)).reshape(shape)
    view = lt.from_numpy(array).permute(*order)[:cut]
    seen = array.transpose(order)[:cut]
    left = seen.size
    wanted = []
    while left > 1:
        wanted.append(data.draw(st.sampled_from([e for e in range(2, left + 1) if left % e == 0])))
        left //= wanted[-1]
    assert (view.reshape(wanted).cell is view.cell) == np.may_share_memory(seen, seen.reshape(wanted))
    assert view.reshape(wanted).tolist() == seen.reshape(wanted).tolist()


def test_window_on_a_leaf_that_is_a_view_has_a_gradient_in_the_shape_of_the_leaf():
    x = lt.arange(6.0)[1:5].requires_grad_()
    y = x[1:].as_strided((2, 2), (1, 1))
    (y * y).sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([[2.0, 3.0], [3.0, 4.0]], [0.0, 4.0, 12.0, 8.0])
