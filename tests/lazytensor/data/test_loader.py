"""Data sets, samplers and the loader: laws of partition and order, PyTorch's orders, and refused options."""

import collections
import itertools
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor import data, random
from lazytensor.core import dtype
from lazytensor.core.tensor import Tensor
from lazytensor.errors import DataError
from lazytensor.functional import creation, pointwise
from lazytensor.random import Generator

TEN = range(10)
SEEDS = (0, 1, 1234)
Pair = collections.namedtuple("Pair", "x y")
sizes = st.integers(1, 60)
seeds = st.integers(0, 2**40)

# fmt: off
RECORDED = {
    0: {
        "shuffle": [[[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]], [[2, 4, 7, 0], [8, 9, 5, 3], [6, 1]]],
        "shuffle_generator": [[[3, 7, 5, 2], [0, 8, 1, 6], [9, 4]], [[1, 3, 2, 7], [5, 9, 0, 6], [4, 8]]],
        "more": [6, 9, 0, 7, 3, 5, 4, 2, 1, 8, 1, 8, 5, 4, 9, 2, 0, 7, 3, 6, 0, 7, 9, 3, 8],
        "drawn": [6, 0, 4, 3, 9, 5, 7, 8, 9, 1, 8, 5, 6, 9, 0, 0, 8, 3, 0, 0, 1, 9, 0, 7, 8, 3, 9, 7, 2, 2, 2, 9, 4],
        "subset": [14, 11, 17, 15, 13, 19, 10, 18, 16, 12],
        "weighted": [2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 2, 1],
        "weighted_once": [2, 1, 3, 4],
        "split": [[4, 1, 7], [5, 3, 9, 0, 8, 6, 2]],
        "fractions": [[4, 1, 7], [5, 3], [9, 0, 8, 6, 2]],
        "checksum_1797": 2914703993,
        "workers": [0.782139897, 0.693817854, 0.053599, 0.29795897, 0.988786936],
    },
    1: {
        "shuffle": [[[4, 2, 0, 6], [8, 7, 9, 1], [5, 3]], [[4, 8, 1, 5], [0, 2, 3, 6], [9, 7]]],
        "shuffle_generator": [[[4, 6, 9, 2], [3, 1, 0, 7], [8, 5]], [[6, 8, 5, 1], [3, 7, 2, 4], [0, 9]]],
        "more": [6, 7, 4, 1, 3, 9, 0, 2, 8, 5, 1, 8, 9, 2, 5, 4, 6, 0, 7, 3, 1, 3, 2, 5, 0],
        "drawn": [6, 2, 0, 4, 1, 4, 0, 5, 4, 1, 2, 1, 4, 3, 5, 2, 4, 2, 1, 9, 2, 3, 3, 0, 8, 1, 6, 8, 2, 1, 1, 4, 5],
        "subset": [15, 16, 11, 12, 10, 18, 19, 13, 17, 14],
        "weighted": [0, 1, 1, 1, 2, 1, 2, 2, 2, 2, 2, 2],
        "weighted_once": [2, 0, 3, 1],
        "split": [[5, 6, 1], [2, 0, 8, 9, 3, 7, 4]],
        "fractions": [[5, 6, 1], [2, 0], [8, 9, 3, 7, 4]],
        "checksum_1797": 1161971290,
        "workers": [0.511310458, 0.30227083, 0.231042027, 0.859754622, 0.658973813],
    },
    1234: {
        "shuffle": [[[2, 1, 3, 6], [7, 9, 5, 4], [8, 0]], [[3, 0, 9, 5], [2, 6, 4, 7], [8, 1]]],
        "shuffle_generator": [[[6, 3, 0, 4], [1, 5, 9, 7], [2, 8]], [[0, 4, 7, 8], [5, 9, 3, 2], [1, 6]]],
        "more": [5, 2, 1, 3, 7, 0, 6, 8, 4, 9, 5, 2, 1, 8, 4, 6, 7, 0, 9, 3, 0, 6, 8, 3, 5],
        "drawn": [5, 1, 2, 0, 3, 5, 0, 7, 4, 5, 5, 6, 5, 8, 1, 1, 0, 5, 0, 8, 6, 9, 7, 0, 0, 3, 8, 1, 4, 7, 8, 2, 7],
        "subset": [15, 14, 18, 12, 16, 19, 11, 17, 10, 13],
        "weighted": [1, 0, 2, 2, 2, 1, 1, 1, 1, 2, 2, 0],
        "weighted_once": [1, 2, 3, 0],
        "split": [[5, 4, 8], [2, 6, 9, 1, 7, 0, 3]],
        "fractions": [[5, 4, 8], [2, 6], [9, 1, 7, 0, 3]],
        "checksum_1797": 3125244980,
        "workers": [0.327941477, 0.409961641, 0.746379793, 0.389632225, 0.478070736],
    },
}
"""Answers of PyTorch 2.13.0 on the CPU, each after `torch.manual_seed(seed)` or with a generator of that seed, from the
calls that ANSWERS spells with our names."""
# fmt: on


class Numbers(data.Dataset):
    """0.0, 1.0, ... one sample at a time."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return float(range(self.n)[i])


class Stream(data.IterableDataset):
    """A count to n; with workers, worker k counts from 100 k to n - k."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        info = data.get_worker_info()
        k = info.id if info else 0
        return iter(range(100 * k, 99 * k + self.n))


class Drawn(Numbers):
    """A random number, drawn where the sample is read."""

    def __getitem__(self, i):
        return creation.rand(1).item()


def flat(batches):
    return [x for batch in batches for x in np.ravel(listed(batch))]


def listed(batch):
    return batch.tolist() if isinstance(batch, Tensor) else batch


def twice(loader):
    return [[batch.tolist() for batch in loader] for _ in range(2)]


def parts(split):
    return [list(part.indices) for part in split]


def checksum(order):
    return zlib.crc32(np.array(order, np.int64).tobytes())


ANSWERS = {
    "shuffle": lambda seed: twice(data.DataLoader(TEN, 4, shuffle=True)),
    "shuffle_generator": lambda seed: twice(
        data.DataLoader(TEN, 4, shuffle=True, generator=Generator().manual_seed(seed))
    ),
    "more": lambda seed: list(data.RandomSampler(TEN, num_samples=25)),
    "drawn": lambda seed: list(data.RandomSampler(TEN, replacement=True, num_samples=33)),
    "subset": lambda seed: list(data.SubsetRandomSampler(range(10, 20))),
    "weighted": lambda seed: list(data.WeightedRandomSampler([1, 2, 7, 0], 12)),
    "weighted_once": lambda seed: list(data.WeightedRandomSampler([1, 2, 7, 3, 0.5], 4, replacement=False)),
    "split": lambda seed: parts(data.random_split(TEN, [3, 7])),
    "fractions": lambda seed: parts(data.random_split(TEN, [0.25, 0.25, 0.5])),
    "checksum_1797": lambda seed: checksum(flat(data.DataLoader(range(1797), shuffle=True))),
    "workers": lambda seed: [float(f"{x:.9g}") for x in flat(data.DataLoader(Drawn(5), num_workers=2))],
}


@pytest.fixture(autouse=True)
def fresh_seed():
    random.manual_seed(7)


@pytest.mark.process
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", ANSWERS)
def test_random_orders_are_those_of_pytorch(what, seed):
    random.manual_seed(seed)
    assert ANSWERS[what](seed) == RECORDED[seed][what]


# -- samplers --------------------------------------------------------------------------------------------------------


@given(sizes, seeds)
def test_each_order_is_a_permutation(n, seed):
    generator = Generator().manual_seed(seed)
    for sampler in (
        data.SequentialSampler(range(n)),
        data.RandomSampler(range(n), generator=generator),
        data.SubsetRandomSampler(range(n), generator),
        data.WeightedRandomSampler([1.0] * n, n, replacement=False, generator=generator),
    ):
        assert sorted(sampler) == list(range(n))
        assert len(sampler) == n


@given(sizes, st.integers(1, 150), seeds, st.booleans())
def test_random_sampler_gives_as_many_as_asked(n, count, seed, replacement):
    sampler = data.RandomSampler(range(n), replacement, count, Generator().manual_seed(seed))
    order = list(sampler)
    assert len(order) == len(sampler) == count
    assert set(order) <= set(range(n))
    if not replacement:
        uses = np.bincount(order, minlength=n)
        assert uses.max() - uses.min() <= 1


@given(sizes, seeds)
def test_equal_seeds_give_equal_orders_and_the_next_pass_another(n, seed):
    def orders():
        loader = data.DataLoader(range(n), shuffle=True, generator=Generator().manual_seed(seed))
        return [flat(loader), flat(loader)]

    assert orders() == orders()
    assert n < 10 or orders()[0] != orders()[1]


@given(st.integers(0, 60), st.integers(1, 20), st.booleans())
def test_batches_cover_the_data_in_order(n, batch_size, drop_last):
    sampler = data.BatchSampler(range(n), batch_size, drop_last)
    batches = list(sampler)
    kept = n - n % batch_size if drop_last else n
    assert list(itertools.chain(*batches)) == list(range(kept))
    assert len(sampler) == len(batches) == (n // batch_size if drop_last else -(-n // batch_size))
    assert all(len(batch) == batch_size for batch in batches[: None if drop_last else -1])


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=9), seeds, st.booleans())
def test_weight_zero_is_never_drawn(weights, seed, replacement):
    positive = np.count_nonzero(weights)
    if not positive:
        with pytest.raises(data.DataOptionError, match="not all zero"):
            data.WeightedRandomSampler(weights, 1)
        return
    order = list(data.WeightedRandomSampler(weights, int(positive), replacement, Generator().manual_seed(seed)))
    assert all(weights[i] > 0 for i in order)
    assert replacement or len(set(order)) == positive


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_counts_are_checked(count):
    for make in (
        lambda: data.RandomSampler(TEN, num_samples=count),
        lambda: data.BatchSampler(TEN, count, False),
        lambda: data.DataLoader(TEN, count),
        lambda: data.WeightedRandomSampler([1.0], count),
    ):
        with pytest.raises(data.DataOptionError, match="positive integer"):
            make()


# -- data sets -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), seeds)
def test_split_is_a_partition(lengths, seed):
    whole = range(sum(lengths))
    if sum(lengths) == 1:
        return  # these lengths are fractions as well, and a warning says that a part is empty
    split = data.random_split(whole, lengths, Generator().manual_seed(seed))
    assert [len(part) for part in split] == lengths
    assert sorted(i for part in split for i in part) == list(whole)


@given(sizes, st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_fractions_round_down_and_share_the_rest(n, weights):
    n += 100  # so that no part is empty
    fractions = [w / sum(weights) for w in weights]
    if sum(fractions) > 1:
        return
    lengths = [len(part) for part in data.random_split(range(n), fractions)]
    assert sum(lengths) == n
    assert all(abs(length - n * f) < 2 for length, f in zip(lengths, fractions, strict=True))


@pytest.mark.parametrize("lengths", [[3, 8], [0.5, 0.6], [0.5, 0.4], [1.5, -0.5]])
def test_wrong_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match=r"Sum of input lengths|not between 0 and 1"):
        data.random_split(TEN, lengths)


def test_an_empty_part_warns():
    with pytest.warns(UserWarning, match="index 1 is 0"):
        data.random_split(TEN, [1.0, 0.0])


@given(st.lists(st.lists(st.integers(), max_size=4), min_size=1, max_size=4))
def test_concat_is_one_list(lists):
    joined, plain = data.ConcatDataset(lists), list(itertools.chain(*lists))
    assert len(joined) == len(plain)
    assert [joined[i] for i in range(-len(plain), len(plain))] == plain + plain
    for outside in (len(plain), -len(plain) - 1):
        with pytest.raises((IndexError, ValueError)):
            joined[outside]


def test_data_sets_add_up():
    assert list(Numbers(2) + Numbers(1)) == [0.0, 1.0, 0.0]
    chained = Stream(2) + Stream(1)
    assert list(chained) == [0, 1, 0]
    assert len(chained) == 3


def test_malformed_data_sets_are_refused():
    for make, text in (
        (lambda: data.ConcatDataset([]), "empty"),
        (lambda: data.ConcatDataset([Stream(1)]), "IterableDataset"),
        (lambda: data.TensorDataset(creation.zeros(2), creation.zeros(3)), r"\[2, 3\]"),
        (lambda: data.TensorDataset(), "Size mismatch"),
    ):
        with pytest.raises(DataError, match=text):
            make()
    with pytest.raises(NotImplementedError, match="__getitem__"):
        data.Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(data.IterableDataset())


# -- loader ----------------------------------------------------------------------------------------------------------


@given(sizes, st.integers(1, 20), st.booleans(), st.booleans(), seeds)
def test_loader_reads_every_sample_once(n, batch_size, shuffle, drop_last, seed):
    options = {"shuffle": shuffle, "drop_last": drop_last}
    loader = data.DataLoader(Numbers(n), batch_size, generator=Generator().manual_seed(seed), **options)
    batches = list(loader)
    seen = flat(batches)
    assert len(batches) == len(loader)
    assert len(set(seen)) == len(seen) == (n - n % batch_size if drop_last else n)
    assert shuffle or seen == list(range(len(seen)))


@given(sizes, st.integers(1, 20), seeds, st.integers(0, 2))
def test_gathered_batches_equal_collated_ones(n, batch_size, seed, depth):
    """A TensorDataset and its subsets are gathered at once; a subclass goes the long way to the same batches."""

    class Slow(data.TensorDataset):
        pass

    def batches(kind):
        whole = kind(
            creation.from_numpy(np.arange(3.0 * n).reshape(n, 3)),
            creation.tensor(list(range(n)), dtype=dtype.bfloat16),
        )
        for _ in range(depth):
            whole = data.Subset(whole, list(range(len(whole)))[::-2])
        loader = data.DataLoader(whole, batch_size, shuffle=True, generator=Generator().manual_seed(seed))
        return [([x.tolist(), y.tolist()], x.dtype, y.dtype) for x, y in loader]

    assert batches(data.TensorDataset) == batches(Slow)


@given(st.integers(0, 30), st.integers(1, 7), st.booleans())
def test_stream_comes_in_order(n, batch_size, drop_last):
    loader = data.DataLoader(Stream(n), batch_size, drop_last=drop_last)
    batches = list(loader)
    assert flat(batches) == list(range(n - n % batch_size if drop_last else n))
    assert len(batches) == len(loader)


@given(sizes)
def test_no_batch_size_gives_samples(n):
    assert list(data.DataLoader(Numbers(n), batch_size=None)) == list(map(float, range(n)))
    assert list(data.DataLoader(Stream(n), batch_size=None)) == list(range(n))
    assert len(data.DataLoader(Stream(n), batch_size=None)) == n


def test_own_samplers_and_collate_are_used():
    assert flat(data.DataLoader(TEN, 2, sampler=[3, 1, 2])) == [3, 1, 2]
    assert [b.tolist() for b in data.DataLoader(TEN, batch_sampler=[[5], [1, 2]])] == [[5], [1, 2]]
    assert list(data.DataLoader(TEN, 5, collate_fn=sum)) == [10, 35]


def test_many_samples_at_once_are_asked_for_where_offered():
    class Offering(Numbers):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert flat(data.DataLoader(data.Subset(Offering(4), [3, 1]), 2)) == [-3, -1]


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"prefetch_factor": -2, "num_workers": 1},
        {"prefetch_factor": 0, "num_workers": 1},
        {"multiprocessing_context": "fork"},
        {"multiprocessing_context": "thread", "num_workers": 1},
        {"persistent_workers": True},
        {"sampler": [0], "shuffle": True},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"drop_last": 1},
    ],
)
def test_contradicting_options_are_refused(options):
    with pytest.raises(data.DataOptionError):
        data.DataLoader(TEN, **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_a_stream_has_its_own_order(options):
    with pytest.raises(data.DataOptionError, match="expected unspecified"):
        data.DataLoader(Stream(3), **options)


@pytest.mark.process
def test_what_makes_no_difference_is_accepted():
    options = {"pin_memory": True, "pin_memory_device": "cuda", "timeout": 5, "num_workers": 1, "prefetch_factor": 4}
    assert flat(data.DataLoader(TEN, 3, multiprocessing_context="fork", in_order=False, **options)) == list(TEN)


# -- collate ---------------------------------------------------------------------------------------------------------

leaves = st.one_of(st.integers(-99, 99), st.booleans(), st.floats(width=32, allow_nan=False), st.text(max_size=3))


@given(st.dictionaries(st.text(max_size=2), leaves, max_size=3), st.lists(leaves, max_size=3), st.integers(1, 4))
def test_collate_keeps_structure_and_values(mapping, row, n):
    sample = {"mapping": mapping, "row": row, "pair": Pair(1, 2.5)}
    batch = data.default_collate([sample] * n)
    assert {k: listed(v) for k, v in batch["mapping"].items()} == {k: [v] * n for k, v in mapping.items()}
    assert [listed(v) for v in batch["row"]] == [[v] * n for v in row]
    assert isinstance(batch["pair"], Pair)
    assert batch["pair"].y.tolist() == [2.5] * n


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (1, dtype.int64),
        (True, dtype.bool_),
        (1.5, dtype.float64),
        (np.float32(1), dtype.float32),
        (np.arange(3, dtype=np.uint8), dtype.uint8),
        (np.ones((2, 2)), dtype.float64),
        (creation.zeros(2), dtype.float32),
        (creation.zeros(2, dtype=dtype.float16), dtype.float16),
    ],
)
def test_collate_gives_pytorch_s_types(sample, expected):
    batch = data.default_collate([sample, sample])
    assert batch.dtype is expected
    assert tuple(batch.shape) == (2, *np.shape(sample.array() if isinstance(sample, Tensor) else sample))


def test_collate_gives_lists_for_tuples_and_ranges():
    assert [x.tolist() for x in data.default_collate([(1, 2), (3, 4)])] == [[1, 3], [2, 4]]
    assert [x.tolist() for x in data.default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]
    assert data.default_collate([np.str_("a"), "b"]) == ["a", "b"]
    assert data.default_collate([collections.OrderedDict(a="x")]) == {"a": ["x"]}


def test_collate_keeps_the_gradient_and_promotes():
    x = creation.ones(2, requires_grad=True)
    assert data.default_collate([x, pointwise.mul(x, 2.0)]).requires_grad
    mixed = data.default_collate([creation.tensor([1]), creation.tensor([1.5])])
    assert mixed.dtype is dtype.float32
    assert mixed.tolist() == [[1.0], [1.5]]


@pytest.mark.parametrize("sample", [None, object(), 1j, {1, 2}, np.array(["a"])])
def test_collate_names_the_type_it_does_not_know(sample):
    with pytest.raises(TypeError, match="default_collate: batch must contain") as caught:
        data.default_collate([{"a": sample}])
    assert isinstance(caught.value, data.SampleTypeError)
    assert "collate_fn=" in caught.value.hint


@pytest.mark.parametrize("kind", [creation.zeros, lambda n: np.zeros(n), lambda n: [0] * n])
def test_collate_refuses_unequal_sizes(kind):
    with pytest.raises(DataError, match="equal size"):
        data.default_collate([kind(2), kind(3)])


def test_a_script_adds_and_replaces_functions_of_collate(monkeypatch):
    class Words(list):
        pass

    functions = data.collate.default_collate_fn_map
    monkeypatch.setitem(functions, Words, lambda batch, *, collate_fn_map=None: sum(map(len, batch)))
    monkeypatch.setitem(functions, str, lambda batch, *, collate_fn_map=None: "".join(batch))
    assert data.default_collate([{"a": Words("ab"), "b": ("x", 1)}, {"a": Words("c"), "b": ("y", 2)}])["a"] == 3
    assert data.default_collate([["x"], ["y"]]) == ["xy"]
    assert data.collate.collate([("x",), ("y",)], collate_fn_map={str: functions[str]}) == ["xy"]


def test_convert_makes_tensors_of_arrays_only():
    made = data.default_convert({"a": np.ones(2), "b": "s", "c": (np.float32(1), None), "d": Pair(np.ones(1), 3)})
    assert made["a"].dtype is dtype.float64
    assert (made["b"], made["c"][1], made["d"].y) == ("s", None, 3)
    assert made["c"][0].item() == 1.0
    assert isinstance(made["d"].x, Tensor)
