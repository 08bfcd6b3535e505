"""Restartable loaders: the state after a step, from all workers, brings back exactly the batches that would follow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.utils.data import DataExecutor, loader_position
from cstorch_compat.cerebras.pytorch.utils.data.dataloader import DataLoader
from cstorch_compat.cerebras.pytorch.utils.step_ranges import Schedule
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process, steps
from lazytensor.functional import creation
from tests.cstorch_compat.cerebras.pytorch.utils.data.test_batch_stream import csx, pytestmark  # noqa: F401

distributed = get_mirror("cerebras.pytorch.distributed")
RestartableDataLoader = get_mirror("cerebras.pytorch.utils.data").RestartableDataLoader


class Counted:
    """Shards a sequence of global batches by rank, and remembers how many samples all workers have streamed."""

    rows, length = 4, 23

    def __init__(self):
        self.start, self.log = 0, []

    def __iter__(self):
        start, self.start = self.start, 0
        rows = distributed.get_streaming_batch_size(self.rows)
        system = step = 0
        workers = systems = 1
        if distributed.is_streamer():
            systems = self.rows // rows
            workers = distributed.num_streamers() // systems
            system, step = divmod(distributed.get_streaming_rank(), workers)
        for k in range(start // self.rows + step, self.length, workers):
            yield creation.tensor([k * 100 + system * rows + i for i in range(rows)])

    def state_dict(self):
        return {"samples": distributed.get_worker_state().samples_streamed, "before": 0}

    def aggregate_state_dict(self, worker_states):
        return {"samples": sum(s["samples"] for s in worker_states)}

    def deaggregate_state_dict(self, aggregated_state_dict, strict=True):
        return aggregated_state_dict

    def load_state_dict(self, state_dict, strict=True):
        self.start = state_dict["samples"]


class Own:
    """Each worker counts its own batches and gets its own count back; the methods are those of release 2.0."""

    def __init__(self):
        self.i = 0

    def __iter__(self):
        rank = distributed.get_ordinal()
        while self.i < 7:
            self.i += 1
            yield creation.full((distributed.get_streaming_batch_size(4),), 100.0 * rank + self.i)
        self.i = 0

    def state_dict(self):
        return self.i

    def aggregate_state_dict(self, worker_states):
        return {"all": worker_states}

    def deaggregate_state_dict(self, aggregated_state_dict):
        return aggregated_state_dict["all"][distributed.get_ordinal()]

    def load_state_dict(self, state_dict):
        self.i = state_dict


def batches(loader, num_steps, state_after=None):
    """What a run reads, and the common state after one of its steps."""
    state, seen = None, []
    schedule = Schedule([Schedule.Range(state_after - 1, state_after, 1, False)]) if state_after else None
    stream = loader.stream(num_steps, schedule)
    try:
        for step, batch in zip(range(1, num_steps + 1), stream, strict=False):
            stream.count(len(batch))
            seen.append(batch.tolist())
            if step == state_after:
                loader.keep(stream, step)
                state = loader._kept[step]
        return seen, state
    finally:
        loader.release(stream)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([1, 2]), st.integers(1, 3), st.integers(1, 8), st.integers(1, 4))
def test_a_count_of_all_samples_goes_on_with_exactly_the_next_batch(systems, workers, stop, more):
    with csx(systems, workers):
        whole, state = batches(DataLoader(Counted), stop + more, stop)
        assert state == {"samples": stop * Counted.rows}
        resumed = DataLoader(Counted)
        resumed.load_state_dict(state)
        assert batches(resumed, more)[0] == whole[stop:]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([1, 2]), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
def test_states_of_their_own_go_back_to_each_worker(systems, workers, rounds, more):
    """After whole rounds, that is: a new run begins with the first worker of each system."""
    with csx(systems, workers):
        stop = rounds * workers
        whole, state = batches(DataLoader(Own), stop + more, stop)
        assert state == {"all": [rounds] * systems * workers}
        resumed = DataLoader(Own)
        resumed.load_state_dict(state)
        assert batches(resumed, more)[0] == whole[stop:]


def test_a_state_of_the_end_of_an_epoch_goes_on_with_the_next_epoch():
    with csx(1, 2):
        whole, state = batches(DataLoader(Own), 16, 14)
        assert state == {"all": [7, 7]}
        resumed = DataLoader(Own)
        resumed.load_state_dict(state)
        assert batches(resumed, 2)[0] == whole[14:] == [[1.0] * 4, [101.0] * 4]


def test_the_place_of_each_worker():
    """After step 3 of 2 systems with 2 workers each, the first worker of each system has given two shares."""

    class Loader(Own):
        def state_dict(self):
            return vars(distributed.get_worker_state())

    with csx(2, 2):
        _, state = batches(DataLoader(Loader), 5, 3)
    places = [loader_position.DataLoaderCheckpoint(**worker) for worker in state["all"]]
    assert places == [
        loader_position.DataLoaderCheckpoint(local, 2, 2, system, 3, 2 - local, 2 * (2 - local))
        for system in (0, 1)
        for local in (0, 1)
    ]
    assert [p.global_worker_id for p in places] == [0, 1, 2, 3]
    assert places[0].total_num_workers == 4


def test_the_place_can_be_asked_for_once_and_in_state_dict_alone():
    class Loader(Own):
        def state_dict(self):
            distributed.get_worker_state()
            return distributed.get_worker_state()

    with csx(), pytest.raises(RuntimeError, match="only be called once"):
        batches(DataLoader(Loader), 1, 1)
    with pytest.raises(RuntimeError, match="only be called once"):
        distributed.get_worker_state()


# -- in a loop on the CPU backend -----------------------------------------------------------------------------------


@pytest.fixture
def cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    process.make_backend("CPU", tmp_path)


def test_state_is_there_on_checkpoint_steps_alone(cpu):
    loader = DataLoader(Own)
    executor = DataExecutor(loader, num_steps=5, checkpoint_steps=2)
    seen = {}
    for _ in executor:
        try:
            seen[executor.user_iteration] = loader.state_dict()
        except RuntimeError as e:
            assert "can only be requested at a checkpoint step" in str(e)
    assert seen == {2: {"all": [2]}, 4: {"all": [4]}, 5: {"all": [5]}}
    with pytest.raises(RuntimeError, match="data executor was not used"):
        loader.state_dict()


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_a_checkpoint_closure_sees_the_state_of_its_step(cpu, monkeypatch, lag):
    monkeypatch.setattr(process.RUN.options, "closure_lag", lag)
    loader, seen = DataLoader(Own), []
    save = steps.make_closure(lambda step: seen.append((step, loader.state_dict())), needs_checkpoint=True)
    executor = DataExecutor(loader, num_steps=5, checkpoint_steps=2)
    for _ in executor:
        save(executor.user_iteration)
    assert seen == [(step, {"all": [step]}) for step in (2, 4, 5)]


def test_a_loaded_state_is_for_one_loop(cpu):
    loader = DataLoader(Own)
    loader.load_state_dict({"all": [5]})
    seen = [[int(batch[0]) for batch in DataExecutor(loader, num_steps=3)] for _ in range(2)]
    assert seen == [[6, 7, 1], [2, 3, 4]]


def test_loading_inside_of_the_loop_is_refused(cpu):
    loader = DataLoader(Own)
    for _ in DataExecutor(loader, num_steps=2):
        with pytest.raises(RuntimeError, match="only before iterating"):
            loader.load_state_dict({"all": [5]})


def test_restartable_is_what_has_all_of_the_protocol(cpu):
    class Half:
        state_dict = load_state_dict = lambda self: {}

        def __iter__(self):
            return iter(())

    assert DataLoader(Own).is_restartable
    assert isinstance(Own(), RestartableDataLoader)
    assert not isinstance(Half(), RestartableDataLoader)
    for call in (lambda d: d.state_dict(), lambda d: d.load_state_dict({})):
        with pytest.raises(RuntimeError, match="not configured for"):
            call(DataLoader(Half))
