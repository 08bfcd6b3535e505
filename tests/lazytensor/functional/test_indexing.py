"""Indexing, gathering, sorting and scans: laws against NumPy, and PyTorch's recorded answers."""

import inspect
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config
from lazytensor.core import autocast
from lazytensor.core.capture import Capture
from lazytensor.core.step import StepRunner
from lazytensor.errors import TraceError
from lazytensor.nn import Embedding, EmbeddingBag
from lazytensor.nn import functional as F
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from tests.golden import indexing_answers as golden

RECORDED = json.loads(golden.PATH.read_text(encoding="utf-8"))
SHAPE = (3, 4, 2)
few = settings(max_examples=60, deadline=None)


def counted() -> np.ndarray:
    return np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


# -- recorded answers ------------------------------------------------------------------------------------------------


def agree(got, want) -> None:
    """Equal dtype, shape and elements; floating-point ones to four digits, as they were recorded."""
    if isinstance(want, str) or isinstance(got, str) or not (len(want) == 3 and isinstance(want[0], str)):
        assert type(got) is type(want) and len(got) == len(want)
        if isinstance(want, str):
            assert got == want
        else:
            for g, w in zip(got, want, strict=True):
                agree(g, w)
        return
    assert got[:2] == want[:2]
    if "float" in want[0]:
        np.testing.assert_allclose(np.array(got[2], float), np.array(want[2], float), rtol=2e-3, atol=1e-6)
    else:
        assert got[2] == want[2]


@pytest.mark.parametrize("expression", golden.READS)
def test_answers_are_those_of_pytorch(expression):
    agree(golden.read(lt, expression), RECORDED[expression])


@pytest.mark.parametrize("statement", golden.WRITES)
def test_writes_are_those_of_pytorch(statement):
    agree(golden.written(lt, statement), RECORDED[statement])


@pytest.mark.parametrize("expression", golden.GRADIENTS)
def test_gradients_are_those_of_pytorch(expression):
    agree(golden.gradient(lt, expression), RECORDED[f"d {expression}"])


@pytest.mark.parametrize("statement", golden.WRITTEN_GRADIENTS)
def test_gradients_through_writes_are_those_of_pytorch(statement):
    agree(golden.gradient(lt, "y", statement), RECORDED[f"d {statement}"])


# -- laws ------------------------------------------------------------------------------------------------------------


@st.composite
def indices(draw):
    """A view index and then a picking index, each valid for NumPy; NumPy would take an integer for an array."""
    x = counted()
    view = tuple(
        draw(st.sampled_from([slice(None), slice(1, None), slice(None, None, 2), None, Ellipsis]))
        for _ in range(draw(st.integers(0, 2)))
    )
    view = view if view.count(Ellipsis) < 2 else ()
    seen = x[view]
    picks: list = [slice(None)] * seen.ndim
    for d in draw(st.lists(st.sampled_from(range(seen.ndim)), min_size=1, max_size=2, unique=True)):
        n = seen.shape[d]
        picks[d] = np.array(draw(st.lists(st.integers(-n, n - 1), min_size=2, max_size=2)), np.int64)
    if draw(st.booleans()):
        mask = np.array(draw(st.lists(st.booleans(), min_size=seen.size, max_size=seen.size)))
        return view, mask.reshape(seen.shape)
    return view, tuple(picks)


def as_tensors(index):
    """An index whose arrays are tensors, lists or arrays by turns."""
    kinds = (lt.tensor, np.asarray, lambda a: a.tolist() if a.size else lt.tensor(a))
    if not isinstance(index, tuple):
        return lt.tensor(index)
    return tuple(kinds[k % 3](p) if isinstance(p, np.ndarray) else p for k, p in enumerate(index))


@few
@given(indices())
def test_reading_agrees_with_numpy(index):
    view, picks = index
    np.testing.assert_array_equal(lt.tensor(counted())[view][as_tensors(picks)].numpy(), counted()[view][picks])


@few
@given(indices())
def test_writing_through_a_view_agrees_with_numpy_and_reaches_the_base(index):
    view, picks = index
    x, base = counted(), lt.tensor(counted())
    x[view][picks] = -1
    base[view][as_tensors(picks)] = -1.0
    np.testing.assert_array_equal(base.numpy(), x)


@few
@given(indices())
def test_gradient_of_reading_counts_the_reads(index):
    view, picks = index
    x, counts = lt.tensor(counted(), requires_grad=True), np.zeros(SHAPE, np.float32)
    np.add.at(counts[view], picks, 1)
    if not (out := x[view][as_tensors(picks)]).numel():
        return
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), counts)


@few
@given(indices())
def test_what_is_overwritten_gets_no_gradient(index):
    view, picks = index
    x, value = (lt.tensor(v, requires_grad=True) for v in (counted(), np.float32(2)))
    y = x * 1
    y[view][as_tensors(picks)] = value
    y.sum().backward()
    kept = np.ones(SHAPE, np.float32)
    kept[view][picks] = 0
    np.testing.assert_array_equal(x.grad.numpy(), kept)
    assert (0.0 if value.grad is None else value.grad.item()) >= (kept == 0).sum()


@few
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.5, np.inf, np.nan]), max_size=12), st.booleans())
def test_sorting_orders_keeps_equals_in_place_and_counts_nan_largest(row, descending):
    row = np.array(row, np.float32)
    values, places = lt.tensor(row).sort(descending=descending, stable=True)
    order = np.lexsort((np.arange(len(row)), -row if descending else row, ~np.isnan(row) if descending else row != row))
    np.testing.assert_array_equal(places.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), row[order])


@few
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_unique_counts_and_inverse_rebuild_the_row(row):
    values, inverse, counts = lt.unique(lt.tensor(row), return_inverse=True, return_counts=True)
    assert values[inverse].tolist() == row
    assert counts.tolist() == [row.count(v) for v in values.tolist()]
    runs, back, lengths = lt.unique_consecutive(lt.tensor(row), return_inverse=True, return_counts=True)
    assert runs[back].tolist() == row
    assert lt.repeat_interleave(runs, lengths).tolist() == row


@few
@given(st.permutations(range(6)))
def test_scatter_undoes_gather(order):
    x, places = lt.arange(6.0), lt.tensor(order)
    back = lt.zeros(6).scatter(0, places, x.gather(0, places))
    assert back.tolist() == x.tolist()


@few
@given(st.lists(st.integers(-4, 4), max_size=9))
def test_diff_undoes_cumsum(row):
    sums = lt.cumsum(lt.tensor([0, *row], dtype=lt.int64), 0)
    assert lt.diff(sums).tolist() == row
    assert sums.tolist()[-1] == sum(row)


MASK, PLACES = [True, False, True], [0, 2]


@pytest.mark.parametrize("dtype", [lt.float64, lt.float16, lt.int64])
@pytest.mark.parametrize(
    "index, extents, is_taken",
    [
        (slice(0, 2), [2], True),
        (1, [], True),
        (MASK, [], True),
        (MASK, [1], True),
        (True, [3], True),
        (MASK, [2], False),
        (PLACES, [], False),
        (PLACES, [2], False),
        ((slice(None), PLACES), [2], False),
    ],
)
def test_places_and_masks_are_written_in_the_type_of_the_target(dtype, index, extents, is_taken):
    """As PyTorch: what names a part converts, and what picks elements does not, but for one that a mask fills in."""
    x, value = lt.zeros(2, 3) if isinstance(index, tuple) else lt.zeros(3), lt.ones(extents).to(dtype)
    if is_taken:
        x[index] = value
        assert x.dtype is lt.float32 and x.sum() > 0
        return
    with pytest.raises(RuntimeError, match=r"Index put requires .* dtypes match(?s:.)*\.to\(lazytensor.float32\)"):
        x[index] = value
    assert not x.any()
    x[index] = value.to(x.dtype)
    assert x.sum() > 0


def test_a_type_that_automatic_casts_gave_is_named_with_the_way_out():
    x, y, places = lt.zeros(3), lt.ones(2).half(), lt.tensor([0, 2])
    writes = (
        lambda: x.index_put((places,), y),
        lambda: x.scatter(0, places, y),
        lambda: x.index_add(0, places, y),
    )
    for write in writes:
        with pytest.raises(
            RuntimeError, match=r"operand of type lazytensor.float16 with \.to\(lazytensor.float32\)"
        ) as plain:
            write()
        assert "casts" not in str(plain.value)
        with (
            autocast.autocast(lt.float16),
            pytest.raises(RuntimeError, match="Automatic casts compute products in a half"),
        ):
            write()


def test_errors_name_the_place():
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 1 with size 3"):
        lt.zeros(2, 3)[:, [7]]
    with pytest.raises(IndexError, match="shape of the mask"):
        lt.zeros(2, 3)[lt.tensor([True, False, True])]
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        lt.zeros(2, 3)[[0, 1]] = lt.zeros(2, 2)
    with pytest.raises(RuntimeError, match="only supports 0-dimension value"):
        lt.zeros(2).fill_(lt.ones(2))


@pytest.mark.parametrize("write", [lambda x, y: x.__setitem__(0, y), lambda x, y: x[:, 1].copy_(y)])
def test_a_value_of_more_dimensions_than_its_place_is_refused_at_once(write):
    x = lt.zeros(2, 2)
    with pytest.raises(RuntimeError, match=r"test_indexing.py:\d+: expand\(.*number of sizes provided \(1\)"):
        write(x, lt.ones(2, 2))
    assert not x.any()


def test_what_an_operation_refuses_of_its_values_has_the_line_of_the_operation():
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(RuntimeError, match=f"test_indexing.py:{line}: ZeroDivisionError"):
        (lt.ones(2).long() // lt.zeros(2).long()).tolist()


# -- inside a step ---------------------------------------------------------------------------------------------------

VALUE_DEPENDENT = {
    "nonzero": lambda x: lt.nonzero(x),
    "where": lambda x: lt.where(x > 0),
    "masked_select": lambda x: lt.masked_select(x, x > 0),
    "unique": lambda x: lt.unique(x),
    "unique_consecutive": lambda x: lt.unique_consecutive(x),
    "mask": lambda x: x[x > 0],
    "bincount": lambda x: lt.bincount(x.long()),
    "repeats": lambda x: lt.repeat_interleave(x, x.long()),
}


def in_step(body, *arrays: np.ndarray, readable: bool = False):
    store = Store()
    capture = Capture(store, readable)
    batch = [lt.tensor(a) for a in arrays]
    for k, x in enumerate(batch):
        capture.feed(x.cell, k, f"x{k}")
    with config.override(jit=False, check=True), capture:
        out = body(*batch)
        StepRunner(HostBackend(), store).run(capture)
    return out.numpy()


@pytest.mark.parametrize("name", sorted(VALUE_DEPENDENT))
def test_shapes_that_depend_on_values_are_refused_in_a_step(name):
    body = VALUE_DEPENDENT[name]
    line = inspect.getsourcelines(body)[1]
    with pytest.raises(TraceError, match=rf"test_indexing\.py:{line}") as caught:
        in_step(body, np.arange(3, dtype=np.float32))
    assert "torch.where" in caught.value.hint


def _written_by_mask(x, i):
    y = x * 1
    y[x > 4] = 0.5
    y[:, 0] = y[:, 1].gather(0, i)
    y[i, 1] = 7.0
    return y


STEPS = {
    "gather": lambda x, i: x.gather(0, i.unsqueeze(1).expand(2, 3)),
    "pick": lambda x, i: x[i, 1:],
    "number": lambda x, i: x[i[0]],
    "writes": _written_by_mask,
    "embedding": lambda x, i: F.embedding(i, x, padding_idx=0),
    "one_hot": lambda x, i: F.one_hot(i, 3) + x,
    "masked_scatter": lambda x, i: x.masked_scatter(x > 1, x * 2),
    "sort": lambda x, i: x.sort(1, descending=True).values + x.cummax(1).indices,
    "bag": lambda x, i: F.embedding_bag(i, x, lt.tensor([0, 1])),
}


@pytest.mark.parametrize("name", sorted(STEPS))
def test_steps_agree_with_eager(name):
    arrays = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 0])
    want = STEPS[name](*(lt.tensor(a) for a in arrays)).numpy()
    np.testing.assert_array_equal(in_step(STEPS[name], *arrays), want)


# -- modules ---------------------------------------------------------------------------------------------------------


def test_embedding_starts_as_pytorch_and_leaves_padding_alone():
    lt.manual_seed(0)
    table = Embedding(3, 2, padding_idx=1)
    # torch.manual_seed(0); torch.nn.Embedding(3, 2, padding_idx=1).weight
    want = [[1.5409960746765137, -0.293428897857666], [0.0, 0.0], [-1.0845223665237427, -1.3985954523086548]]
    np.testing.assert_allclose(table.weight.detach().numpy(), want, rtol=1e-6)
    table(lt.tensor([0, 1, 1, 2, 2])).sum().backward()
    assert table.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert repr(table) == "Embedding(3, 2, padding_idx=1)"


def test_options_that_are_left_out_say_so():
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        F.embedding(lt.tensor([0]), lt.zeros(2, 2), scale_grad_by_freq=True)


@few
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=4))
def test_bags_are_sums_of_their_rows(bags):
    table = EmbeddingBag(4, 2, mode="sum", include_last_offset=True)
    ends = np.cumsum([0, *map(len, bags)])
    numbers = lt.tensor([i for bag in bags for i in bag], dtype=lt.int64)
    got = table(numbers, lt.tensor(ends)).detach().numpy()
    rows = table.weight.detach().numpy()
    np.testing.assert_allclose(got, [rows[bag].sum(0) if bag else [0, 0] for bag in bags], rtol=1e-5, atol=1e-6)


def test_frozen_table_from_given_vectors():
    table = Embedding.from_pretrained(lt.eye(3))
    assert not table.weight.requires_grad
    assert table(lt.tensor([2])).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("index", [slice(None), slice(0, None), ..., (slice(None), slice(None)), (slice(None), ...)])
def test_index_of_all_elements_gives_a_view_that_is_no_leaf(index):
    w = lt.ones(2, 3, requires_grad=True)
    view = w[index]
    assert view is not w
    assert not view.is_leaf
    view.sum().backward()
    assert w.grad is not None
    x = lt.ones(2, 3)
    x[index].zero_()
    assert x.tolist() == [[0] * 3] * 2


def test_element_of_a_vector_is_a_view_at_its_place():
    x = lt.arange(3.0)
    assert x[-1].storage_offset() == 2 and x[1].stride() == ()
    shown = x[1].numpy()
    x[1] = 5
    assert shown == 5


# -- what may be assigned --------------------------------------------------------------------------------------------

INDICES = {"element": 0, "all": slice(None), "part": slice(0, 2), "ellipsis": ..., "none": None, "list": [0, 1]}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.float32(1.5), "numpy.float32"),
        (np.float16(1.5), "numpy.float16"),
        (np.bool_(True), "numpy.bool"),
        (np.array(1.5), "numpy.ndarray"),
        (np.zeros(3), "numpy.ndarray"),
        ([1.0, 2.0, 3.0], "list"),
        ((1.0,), "tuple"),
        (None, "NoneType"),
        ("1", "str"),
        (Fraction(1, 2), "Fraction"),
    ],
)
def test_a_value_that_is_no_number_and_no_tensor_is_refused_and_writes_nothing(index, value, name):
    x = lt.zeros(3)
    with pytest.raises(TypeError, match=f"can't assign a {name} to a torch.FloatTensor"):
        x[index] = value
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.bfloat16, lt.int64, lt.uint8])
@pytest.mark.parametrize("value", [np.float64(2.5), np.int64(2), np.int32(2), np.uint8(3)])
def test_a_numpy_float64_or_integer_is_assigned_as_the_python_number(index, dtype, value):
    x, expected = lt.zeros(3, dtype=dtype), lt.zeros(3, dtype=dtype)
    x[index], expected[index] = value, value.item()
    assert x.tolist() == expected.tolist() != [0, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "value"), [(lt.float32, np.float64(1e300)), (lt.uint8, np.int64(300)), (lt.int64, np.float64("nan"))]
)
def test_a_numpy_number_out_of_range_is_refused(dtype, value):
    x = lt.zeros(3, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
        x[0] = value
