"""DistributedSampler: all workers together read what one process reads; orders as recorded from the original."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.utils.data.process_role import Cluster, Role, role_context
from cstorch_compat.cerebras.pytorch.utils.data.sampler import DistributedSampler, pad_index

clusters = st.builds(Cluster, st.integers(1, 3), st.integers(1, 3))


def passes(count=1, *, data=8, rank=None, cluster=None, **options):
    """The next passes of a sampler, in a worker or in the client."""
    with role_context(None if rank is None else Role(rank, cluster)):
        sampler = DistributedSampler(range(data), **options)
        found = []
        for _ in range(count):
            expected = len(sampler)
            found.append(list(sampler))
            assert len(found[-1]) == expected
        return found


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"seed": 3}, [[2, 4, 3, 5, 1, 0, 6, 7], [2, 7, 3, 6, 5, 1, 4, 0], [3, 6, 0, 2, 1, 4, 5, 7]]),
        ({"seed": 3, "start_index": 20}, [[1, 4, 5, 7]]),
        ({"seed": 3, "num_samples": 5}, [[2, 4, 3, 5, 1], [2, 7, 3, 6, 5]]),
        ({"seed": 0, "num_samples": 11}, [[0, 4, 2, 1, 4, 5, 7, 0, 6, 7, 3]]),
        ({"seed": 3, "num_samples": 16, "start_index": 20}, [[5, 3, 2, 6, 5, 4, 7, 3, 4, 6, 1, 0]]),
        ({"shuffle": False, "num_samples": 12, "data": 5}, [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]]),
        ({"shuffle": False, "data": 5, "batch_size": 8}, [[[0, 1, 2, 3, 4, 0, 1, 2]]]),
        (
            {"shuffle": False, "data": 16, "batch_size": 4, "start_index": 6},
            [[[6, 7, 8, 9], [10, 11, 12, 13]], [[14, 15, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13]]],
        ),
    ],
)
def test_orders_as_recorded(options, expected):
    assert passes(len(expected), **options) == expected


@pytest.mark.parametrize(
    "rank, expected",
    [(0, [[0, 1, 2, 3], [16, 17, 18, pad_index]]), (1, [[8, 9, 10, 11]]), (2, [[4, 5, 6, 7], [pad_index] * 4])],
)
def test_shares_as_recorded(rank, expected):
    options = {"data": 19, "shuffle": False, "batch_size": 8, "drop_last": False, "pad_last": True}
    assert passes(rank=rank, cluster=Cluster(2, 2, (4, 4)), **options) == [expected]


@given(clusters, st.integers(1, 40), st.integers(0, 5))
def test_without_batches_every_sample_is_read_by_one_worker(cluster, data, seed):
    found = [passes(data=data, seed=seed, rank=rank, cluster=cluster)[0] for rank in range(cluster.workers)]
    assert sorted(itertools.chain(*found)) == list(range(data))


@given(clusters, st.integers(3, 9), st.integers(1, 40), st.integers(0, 60), st.sampled_from([{}, {"pad_last": True}]))
def test_workers_together_give_the_batches_of_one_process(cluster, batch_size, data, start, padding):
    options = {"data": data, "seed": 1, "batch_size": batch_size, "start_index": start, **padding}
    options["drop_last"] = not padding
    whole = passes(2, **options)
    cluster = cluster.divide_batch(batch_size)
    for i, batches in enumerate(whole):
        shares = [iter(passes(2, rank=rank, cluster=cluster, **options)[i]) for rank in range(cluster.workers)]
        read = [
            list(itertools.chain(*(next(shares[r]) for r in cluster.workers_for_step(s)))) for s in range(len(batches))
        ]
        assert read == batches
        assert [next(s, None) for s in shares] == [None] * len(shares)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 3))
def test_an_epoch_reads_every_sample_once_when_none_is_dropped(data, batch_size, seed):
    (batches,) = passes(data=data, batch_size=batch_size, seed=seed, drop_last=False, pad_last=True)
    assert {len(batch) for batch in batches} == {batch_size}
    assert sorted(i for batch in batches for i in batch if i is not pad_index) == list(range(data))


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 20), st.integers(0, 3))
def test_a_start_index_goes_on_where_a_longer_pass_would(data, batch_size, steps, seed):
    """The stream of batches over the epochs does not depend on where it is taken up."""
    options = {"data": data, "batch_size": batch_size, "seed": seed}
    stream = list(itertools.chain(*passes(25, **options)))[:25]
    rest = list(itertools.chain(*passes(6, start_index=steps * batch_size, **options)))
    assert rest[: 25 - steps] == stream[steps:][: len(rest)]


def test_unsharded_workers_read_everything():
    options = {"data": 6, "seed": 2, "batch_size": 2}
    assert passes(rank=1, cluster=Cluster(1, 2, (2,)), shard=False, **options) == passes(**options)


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 8, "drop_last": False}])
def test_batches_that_do_not_divide_as_the_run_s_are_refused(options):
    with pytest.raises(ValueError, match="do not sum up to the global batch size"):
        passes(data=19, shuffle=False, rank=0, cluster=Cluster(2, 2, (4, 4)), **options)


@pytest.mark.parametrize("name", ["batch_size", "num_samples"])
def test_counts_are_positive(name):
    with pytest.raises(ValueError, match=f"{name} should be a positive integer value, but got {name}=0"):
        DistributedSampler(range(3), **{name: 0})
