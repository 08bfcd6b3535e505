"""Input workers: whose data a step gets, whatever the timing; failures that end the run; nothing left behind."""

import gc
import mmap
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from multiprocessing import resource_tracker

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.utils.data import process_role, shared_ring
from cstorch_compat.cerebras.pytorch.utils.data.dataloader import DataLoader
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import config
from lazytensor.core import dtype
from lazytensor.data.dataset import TensorDataset
from lazytensor.data.loader import DataLoader as PlainLoader
from lazytensor.data.worker_errors import WorkerError
from lazytensor.data.worker_stack import user_line_in_stack
from lazytensor.errors import DataError
from lazytensor.functional import creation
from tests.conftest import python
from tests.lazytensor.data.test_worker_pool import is_gone, shared_memory

distributed = get_mirror("cerebras.pytorch.distributed")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the input functions here are made to be forked"),
]
BATCH = 6
SOON = 20
"""Seconds: a busy machine takes them, and a worker that is waited for takes sixty or more."""


@contextmanager
def csx(num_csx=1, workers=1, python_paths=()):
    config = distributed.ClusterConfig(
        num_csx=num_csx, num_workers_per_csx=workers, python_paths=[str(path) for path in python_paths]
    )
    with tempfile.TemporaryDirectory() as folder:
        before, process.RUN.backend = process.RUN.backend, None
        process.make_backend("CSX", folder, cluster_config=config)
        try:
            yield
        finally:
            process.RUN.backend = before


@contextmanager
def stream(input_fn, num_steps, checkpoints=None):
    loader = DataLoader(input_fn)
    opened = loader.stream(num_steps, checkpoints)
    try:
        yield opened
    finally:
        loader.release(opened)


def read(input_fn, num_steps):
    with stream(input_fn, num_steps) as opened:
        return [batch.array().tolist() for batch, _ in zip(opened, range(num_steps), strict=False)]


@pytest.fixture(autouse=True)
def nothing_is_left():
    resource_tracker.ensure_running()
    before = shared_memory()
    yield
    if multiprocessing.active_children():
        gc.collect()  # an exception that a test has caught may be part of a cycle
    assert multiprocessing.active_children() == []
    assert shared_memory() == before


def numbered(size=None, sleep=lambda rank, i: 0.0, length=7):
    """Batches full of 100 * rank + their number; of this process's share of the batch if no size is given."""

    def input_fn():
        rank = distributed.get_streaming_rank() if distributed.is_streamer() else 0
        rows = size or distributed.get_streaming_batch_size(BATCH)

        class Batches:
            def __iter__(self):
                for i in range(length):
                    time.sleep(sleep(rank, i))
                    yield creation.tensor([100.0 * rank + i] * rows)

        return Batches()

    return input_fn


def expected(num_csx, workers, num_steps, length=7):
    """Said once more in other words: worker w of system c gives its k-th share to step k * workers + w."""
    steps = []
    for step in range(num_steps):
        k, w = divmod(step, workers)
        steps.append([100.0 * (c * workers + w) + k % length for c in range(num_csx) for _ in range(BATCH // num_csx)])
    return steps


# -- whose data a step gets ------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([1, 2, 3]), st.integers(1, 3), st.integers(1, 12))
def test_steps_take_from_the_workers_in_turns(num_csx, workers, num_steps):
    with csx(num_csx, workers):
        assert read(numbered(), num_steps) == expected(num_csx, workers, num_steps)


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
def test_timing_changes_nothing(random):
    pauses = [[random.choice([0, 0, 0.02]) for _ in range(7)] for _ in range(4)]
    with csx(2, 2):
        assert read(numbered(sleep=lambda rank, i: pauses[rank][i]), 9) == expected(2, 2, 9)


@pytest.mark.parametrize("rows", [1, 2, 4, BATCH])
def test_batches_of_any_size_are_cut_into_shares(rows):
    """The client's batch says how large a share is: 6 samples for 2 systems, whatever a worker's loader gives."""

    def input_fn():
        rank = distributed.get_streaming_rank() if distributed.is_streamer() else None
        size = rows if rank is not None else BATCH
        return [creation.arange(size) + 100.0 * (rank or 0) + size * i for i in range(6 // rows * 2)]

    with csx(2, 1):
        assert read(input_fn, 2) == [[0, 1, 2, 100, 101, 102], [3, 4, 5, 103, 104, 105]]


def test_systems_take_uneven_shares_where_the_batch_does_not_divide():
    def input_fn():
        rows = distributed.get_streaming_batch_size(5)
        return [creation.full((rows,), distributed.get_ordinal())]

    with csx(3, 1):
        assert read(input_fn, 1) == [[0, 0, 1, 1, 2]]


def test_structures_and_dtypes_arrive_as_the_client_s_batch_has_them():
    def input_fn():
        rows = distributed.get_streaming_batch_size(4)
        x = creation.tensor(np.arange(rows * 6).reshape(rows, 2, 3), dtype=dtype.bfloat16)
        return [{"x": x, "y": (creation.tensor([True] * rows), [creation.arange(rows)])}]

    with csx(2, 2), stream(input_fn, 2) as opened:
        batch = next(iter(opened))
    assert batch["x"].dtype is dtype.bfloat16
    assert batch["x"].tolist() == [np.arange(12).reshape(2, 2, 3).tolist()[i % 2] for i in range(4)]
    assert batch["y"][0].tolist() == [True] * 4
    assert batch["y"][1][0].tolist() == [0, 1, 0, 1]


ASKED = "get_ordinal num_tasks num_streamers num_receivers is_streamer is_receiver is_master_ordinal".split()


def answers():
    return [int(getattr(distributed, name)()) for name in ASKED]


def test_the_client_is_no_streamer():
    """As the original answers outside of a worker."""
    assert answers() == [0, 1, 0, 1, False, True, True]
    assert distributed.get_streaming_batch_size(8) == 8
    with pytest.raises(AssertionError, match="not a streamer"):
        distributed.get_streaming_rank()


def test_a_worker_knows_its_place():
    def input_fn():
        if not distributed.is_streamer():
            return [creation.zeros(4, 10, dtype=dtype.int64)]
        of_all = [distributed.get_streaming_batch_size(0, rank) for rank in range(4)]
        row = [*answers(), distributed.get_streaming_rank(), distributed.get_streaming_batch_size(4), sum(of_all)]
        return [creation.tensor([row] * 2)]

    with csx(2, 2):
        rows = read(input_fn, 2)
    seen = [rows[0][0], rows[0][2], rows[1][0], rows[1][2]]
    assert seen == [[rank, 4, 4, 0, 1, 0, 0, rank, 2, 8] for rank in (0, 2, 1, 3)]


def test_a_single_worker_stays_in_the_process_and_answers_as_one():
    def input_fn():
        return [creation.tensor([[os.getpid(), *answers(), distributed.get_streaming_rank()]])]

    with csx():
        ((row,),) = read(input_fn, 1)
    assert row == [os.getpid(), 0, 1, 1, 0, 1, 0, 0, 0]
    assert process_role.current_role() is None


def test_shuffling_is_the_same_in_every_worker():
    """So that sharding a shuffled order by rank leaves nothing out."""

    def input_fn():
        return PlainLoader(TensorDataset(creation.arange(40)), batch_size=20, shuffle=True, collate_fn=first_of)

    def first_of(samples):
        return creation.tensor([int(x) for (x,) in samples])

    with csx(1, 2):
        a, b = read(input_fn, 2)
    assert a == b != sorted(a)


def test_a_worker_s_loader_may_have_workers_of_its_own():
    def input_fn():
        return PlainLoader(TensorDataset(creation.arange(8)), batch_size=4, num_workers=2)

    with csx(1, 2), stream(lambda: [b for (b,) in input_fn()], 3) as opened:
        assert [batch.tolist() for batch in opened] == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_worker_waits_when_its_ring_is_full():
    made = mmap.mmap(-1, 2)  # forked processes share it

    def input_fn():
        def batches():
            for _ in range(50):
                if distributed.is_streamer():
                    made[distributed.get_streaming_rank()] += 1
                yield creation.zeros(2)

        return list_like(batches)

    with csx(1, 2), stream(input_fn, 40) as opened:
        batches = iter(opened)
        for taken in range(1, 4):
            next(batches)
            time.sleep(0.1)
            ahead = [4 + (taken + 1) // 2, 4 + taken // 2]  # four batches are ready for each worker
            assert list(made[:]) == ahead


class list_like:
    def __init__(self, function):
        self.function = function

    def __iter__(self):
        return self.function()


def test_workers_make_no_more_than_the_run_takes():
    made = mmap.mmap(-1, 2)

    def sleep(rank, i):
        made[rank] += distributed.is_streamer()
        return 0

    with csx(1, 2):
        read(numbered(sleep=sleep), 3)
    assert list(made[:]) == [2, 1]


# -- failures --------------------------------------------------------------------------------------------------------


def failing(when, what):
    def sleep(rank, i):
        if distributed.is_streamer() and (rank, i) == when:
            what()
        return 0

    return numbered(sleep=sleep)


def raise_key_error():
    raise KeyError("boom")


def test_a_worker_that_raises_ends_the_run_with_rank_step_and_traceback():
    with csx(2, 2), pytest.raises(WorkerError) as caught:
        read(failing((3, 2), raise_key_error), 20)
    text = str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    assert "test_batch_stream.py" in text.splitlines()[0]
    assert "input worker 3 of 4 raised KeyError in its share of step 6." in text
    assert 'raise KeyError("boom")' in text


def test_steps_before_the_failing_one_are_given():
    with csx(1, 2), stream(failing((1, 2), raise_key_error), 20) as opened:
        batches = iter(opened)
        assert [next(batches).array()[0] for _ in range(5)] == [0, 100, 1, 101, 2]
        with pytest.raises(WorkerError, match="step 6"):
            next(batches)


def test_an_input_function_that_raises_in_a_worker_is_an_error():
    def input_fn():
        if distributed.is_streamer():
            raise FileNotFoundError("no such shard")
        return [creation.zeros(2)]

    with (
        csx(1, 2),
        pytest.raises(WorkerError, match=r"input worker 0 of 2 raised FileNotFoundError[\s\S]*no such shard"),
    ):
        read(input_fn, 2)


@pytest.mark.parametrize(
    "end, text",
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by signal SIGKILL"),
        (lambda: os._exit(3), "exited unexpectedly with code 3"),
        (lambda: sys.exit(4), "exited unexpectedly with code 4"),
    ],
)
def test_the_end_of_a_worker_is_an_error_at_once(end, text):
    start = time.monotonic()
    with (
        csx(1, 2),
        pytest.raises(RuntimeError, match=rf"input worker 1 \(pid \d+\) {text}, while step \d+ waited for its batch"),
    ):
        read(failing((1, 2), end), 20)
    assert time.monotonic() - start < SOON


def test_a_worker_killed_from_outside_is_an_error():
    with csx(1, 2), stream(numbered(), 50) as opened:
        batches = iter(opened)
        next(batches)
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="SIGKILL"):
            list(batches)


@pytest.mark.parametrize(
    "batch, text",
    [
        (lambda: creation.zeros(3, 2), r"float32\[3, 2\].*first batch has float32\[3\]"),
        (lambda: creation.arange(3), r"int64\[3\].*first batch has float32\[3\]"),
        (lambda: (creation.zeros(3), creation.zeros(3)), r"float32\[3\], float32\[3\].*first batch has float32\[3\]"),
        (lambda: (creation.zeros(3), creation.zeros(2)), "Only uniform batch sizes"),
    ],
)
def test_a_worker_whose_batches_have_another_form_is_an_error(batch, text):
    with csx(2, 1), pytest.raises(WorkerError, match=text):
        read(lambda: [batch() if distributed.is_streamer() else creation.zeros(6)], 1)


def test_a_worker_without_batches_is_an_error():
    with csx(1, 2), pytest.raises(WorkerError, match="did not return any values"):
        read(lambda: [] if distributed.get_ordinal() == 1 else [creation.zeros(2)], 2)


def test_too_small_a_batch_for_the_systems_is_an_error():
    with csx(3, 1), pytest.raises(DataError, match="2 samples cannot be divided among 3 systems"):
        read(lambda: [creation.zeros(2)], 1)


def test_too_little_shared_memory_is_an_error_before_anything_starts(monkeypatch):
    monkeypatch.setattr(shared_ring.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1 << 20}))
    with csx(1, 2), pytest.raises(DataError, match="MB of shared memory"):
        read(lambda: [creation.zeros(1 << 20)], 2)


def test_an_input_function_that_cannot_be_sent_is_an_error_where_nothing_is_forked(monkeypatch):
    monkeypatch.setattr(
        "cstorch_compat.cerebras.pytorch.utils.data.batch_stream.default_context",
        lambda: multiprocessing.get_context("spawn"),
    )
    with csx(1, 2), pytest.raises(DataError, match="cannot be sent to a worker process"):
        read(lambda: [creation.zeros(2)], 2)


# -- nothing is left -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [lambda: None, raise_key_error])
def test_leaving_the_loop_sends_the_workers_home(leave):
    start = time.monotonic()
    with csx(2, 2):
        try:
            with stream(numbered(), 1000) as opened:
                for _ in opened:
                    assert len(multiprocessing.active_children()) == 4
                    leave()
                    break
        except KeyError:
            pass
        assert multiprocessing.active_children() == []
    assert time.monotonic() - start < SOON


def test_a_worker_that_is_busy_does_not_hold_up_the_end():
    start = time.monotonic()
    with csx(1, 2), stream(numbered(sleep=lambda rank, i: 60 * (rank == 1 and i == 1)), 50) as opened:
        next(iter(opened))
    assert time.monotonic() - start < SOON


def test_the_names_of_shared_memory_are_gone_while_workers_run():
    before = shared_memory()
    with csx(1, 2), stream(numbered(), 50) as opened:
        next(iter(opened))
        assert shared_memory() == before


SCRIPT = """
import os, signal, sys, time
import torch
import cerebras.pytorch as cstorch

config = cstorch.distributed.ClusterConfig(num_workers_per_csx=2)
backend = cstorch.backend("CSX", cluster_config=config)
model = torch.nn.Linear(3, 1)
compiled = cstorch.compile(model, backend)

class Batches:
    def __iter__(self):
        if cstorch.distributed.is_streamer():
            os.write(1, b"%d\\n" % os.getpid())  # at once: what two workers print in pieces may run together
        for i in range(20):
            if i == 5 and cstorch.distributed.get_ordinal() == 1:  # further than it may be ahead of the other one
                IN_WORKER
            yield torch.full((4, 3), 1.0)

@cstorch.trace
def step(batch):
    return compiled(batch).sum()

@cstorch.step_closure
def log(loss):
    pass

loader = cstorch.utils.data.DataLoader(lambda: Batches())
executor = cstorch.utils.data.DataExecutor(loader, num_steps=20)
for batch in executor:
    log(step(batch))
    if executor.user_iteration == 4:
        IN_CLIENT
"""


@pytest.mark.parametrize(
    "in_worker, in_client, code, text",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "pass", 1, "was killed by signal SIGKILL"),
        ("pass", "os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
)
def test_a_script_leaves_neither_processes_nor_shared_memory(tmp_path, in_worker, in_client, code, text):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("IN_WORKER", in_worker).replace("IN_CLIENT", in_client))
    done = python("-m", "cstorch_compat", "run", str(path), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    pids = {int(line) for line in done.stdout.split("\n") if line.isdigit()}
    assert len(pids) == 2
    end = time.monotonic() + 2
    while not all(map(is_gone, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    assert all(map(is_gone, pids))


def test_an_executor_that_is_dropped_in_the_middle_does_not_hold_up_the_end(tmp_path):
    path = tmp_path / "script.py"
    body = SCRIPT.replace("IN_WORKER", "pass")
    head, _, _ = body.partition("for batch in")
    path.write_text(head + "batches = iter(executor)\nstep(next(batches))\nprint('end')\n")
    start = time.monotonic()
    done = python("-m", "cstorch_compat", "run", str(path), cwd=tmp_path)
    assert (done.returncode, "end" in done.stdout) == (0, True), done.stderr
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_a_worker_that_sends_nothing_is_given_up_and_its_line_is_named():
    asleep = numbered(sleep=lambda rank, i: 60.0 * distributed.is_streamer())
    late = r"worker 0 \(pid \d+\) has not answered; it is at .*test_batch_stream.py:\d+ in __iter__"
    # The limit holds from when the workers have their loaders: to get there may take them a while.
    with (
        csx(1, 2),
        stream(asleep, 2) as opened,
        config.override(input_timeout=0.3),
        pytest.raises(WorkerError, match=late) as e,
    ):
        next(iter(opened))
    assert "LT_INPUT_TIMEOUT" in str(e.value) and "while step 1 waited for its batch" in str(e.value)


def test_the_line_of_a_stack_is_the_innermost_of_the_users():
    frames = [
        (os.__file__, 3, "walk"),
        (shared_ring.__file__, 4, "close"),
        ("train.py", 5, "load"),
        ("train.py", 6, "<module>"),
    ]
    stack = "Current thread (most recent call first):\n" + "".join(
        f'  File "{file}", line {line} in {function}\n' for file, line, function in frames
    )
    assert user_line_in_stack(stack) == "; it is at train.py:5 in load"
    assert user_line_in_stack("") == ""
