"""Worker processes of the loader: the order of one process, PyTorch's random numbers, and nothing left behind."""

import collections
import gc
import mmap
import multiprocessing
import os
import pathlib
import random as python_random
import signal
import sys
import textwrap
import time

import numpy as np
import pytest

from lazytensor import data, random
from lazytensor.core import dtype
from lazytensor.data import worker_pool
from lazytensor.errors import DataError
from lazytensor.functional import creation
from lazytensor.nn import Parameter
from lazytensor.random import Generator
from tests.conftest import python

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the data sets here are made to be forked"),
]

SHARED = pathlib.Path("/dev/shm")
Pair = collections.namedtuple("Pair", "x y")


class Read(data.Dataset):
    """What a function gives for each index."""

    def __init__(self, n, function):
        self.n, self.function = n, function

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.function(i)


class Counts(data.IterableDataset):
    """Worker k counts from 100 k, as far as `lengths[k]` says."""

    def __init__(self, *lengths):
        self.lengths = lengths

    def __iter__(self):
        k = data.get_worker_info().id
        return iter(range(100 * k, 100 * k + self.lengths[k]))


class TwoParts(Exception):
    """An exception that a message alone does not make."""

    def __init__(self, first, second):
        super().__init__(first, second)


def shared_memory():
    return sorted(os.listdir(SHARED)) if SHARED.exists() else []


@pytest.fixture(autouse=True)
def nothing_is_left():
    random.manual_seed(7)
    before = shared_memory(), len(os.listdir("/proc/self/fd")) if pathlib.Path("/proc/self/fd").exists() else 0
    yield
    if multiprocessing.active_children():
        gc.collect()  # an exception that a test has caught may be part of a cycle
    assert multiprocessing.active_children() == []
    # Tests that run beside this one have some for a moment.
    deadline = time.monotonic() + 5
    while shared_memory() != before[0] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (shared_memory(), len(os.listdir("/proc/self/fd")) if before[1] else 0) == before


def is_gone(pid):
    """True also for a process that has ended and whose new parent has not asked for its exit code yet."""
    try:
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return pathlib.Path("/proc/self").exists()


def raising(error):
    def read(i):
        raise error

    return read


# -- order and numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 30])
@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("batch_size", "options"),
    [(1, {}), (4, {"drop_last": True}), (1, {"prefetch_factor": 1}), (4, {"prefetch_factor": 5})],
)
def test_order_is_that_of_one_process(n, num_workers, options, batch_size):
    def batches(**more):
        loader = data.DataLoader(range(n), batch_size, True, generator=Generator().manual_seed(n), **more)
        return [[batch.tolist() for batch in loader] for _ in range(2)]

    plain = {"drop_last": options.get("drop_last", False)}
    assert batches(num_workers=num_workers, **options) == batches(**plain)


def test_the_slow_worker_keeps_its_place():
    loader = data.DataLoader(Read(6, lambda i: (time.sleep(0.02 * (i % 2 == 0)), i)[1]), num_workers=2)
    assert [batch.item() for batch in loader] == list(range(6))


def test_work_is_done_in_other_processes_and_ahead():
    seen = mmap.mmap(-1, 20)  # forked processes share it

    def read(i):
        seen[i] = 1
        return os.getpid(), np.zeros(100_000)

    batches = iter(data.DataLoader(Read(20, read), batch_size=None, num_workers=2, prefetch_factor=3))
    end = time.monotonic() + 5
    while sum(seen[:]) < 6 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.05)
    assert list(seen[:]) == [1] * 6 + [0] * 14
    pids = [pid for pid, _ in batches]
    assert len(set(pids)) == 2
    assert os.getpid() not in pids


def test_all_that_a_batch_may_hold_arrives_as_it_was():
    half = creation.tensor([0.1, 2.0], dtype=dtype.bfloat16)
    sample = {"pair": Pair(half, "text"), "big": np.arange(1 << 20), "none": None, "p": Parameter(creation.ones(2))}
    (got,) = data.DataLoader([sample], batch_size=None, num_workers=1, collate_fn=lambda x: x)
    assert got["pair"].x.dtype is dtype.bfloat16
    assert got["pair"].x.tolist() == half.tolist()
    assert (got["pair"].y, got["none"]) == ("text", None)
    assert np.array_equal(got["big"], sample["big"])
    assert got["big"].flags.writeable
    assert isinstance(got["p"], Parameter)
    assert got["p"].requires_grad


def test_random_numbers_are_those_of_pytorch_s_workers():
    """Recorded from PyTorch 2.13 after `torch.manual_seed(5)`."""
    random.manual_seed(5)
    read = Read(4, lambda i: (data.get_worker_info().seed, np.random.rand(), python_random.random()))
    rows = [[x.item() for x in batch] for batch in data.DataLoader(read, num_workers=2)]
    assert rows == [
        [4095051218741643470, 0.48524966518109036, 0.9732059885921714],
        [4095051218741643471, 0.08072729909407361, 0.7347412016282042],
        [4095051218741643470, 0.24756875093656816, 0.09916814881074121],
        [4095051218741643471, 0.9242645271423134, 0.421098279900221],
    ]


def test_a_worker_is_started_and_knows_itself():
    started = []

    def read(i):
        info = data.get_worker_info()
        return info.id, info.num_workers, info.seed - first_seed, info.dataset is dataset, started

    first_seed = int(Generator().manual_seed(7).integers(0, 1 << 63, ()))
    dataset = Read(3, read)
    loader = data.DataLoader(dataset, batch_size=None, num_workers=2, worker_init_fn=started.append)
    assert list(loader) == [[0, 2, 0, True, [0]], [1, 2, 1, True, [1]], [0, 2, 0, True, [0]]]
    assert started == []
    assert data.get_worker_info() is None


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((5, 4), [[0, 1], [100, 101], [2, 3], [102, 103], [4]]),
        ((0, 3), [[100, 101], [102]]),
        ((1, 7, 3), [[0], [100, 101], [200, 201], [102, 103], [202], [104, 105], [106]]),
        ((0, 0), []),
    ],
)
def test_streams_are_read_in_turns(lengths, expected, persistent_workers):
    loader = data.DataLoader(Counts(*lengths), 2, num_workers=len(lengths), persistent_workers=persistent_workers)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == expected


# -- persistent workers ----------------------------------------------------------------------------------------------


def test_persistent_workers_keep_their_process():
    started = []
    loader = data.DataLoader(
        Read(4, lambda i: (os.getpid(), len(started))),
        batch_size=None,
        num_workers=2,
        persistent_workers=True,
        worker_init_fn=started.append,
    )
    first = list(loader)
    assert list(loader) == first
    pids = {pid for pid, _ in first}
    assert len(pids) == 2
    assert [count for _, count in first] == [1] * 4
    del loader
    assert all(map(is_gone, pids))


def test_a_new_pass_of_persistent_workers_forgets_the_old_one():
    loader = data.DataLoader(range(20), num_workers=2, persistent_workers=True)
    for batch in loader:
        if batch.item() == 3:
            break
    assert [batch.item() for batch in loader] == list(range(20))


def test_persistent_workers_that_died_are_hired_anew():
    loader = data.DataLoader(Read(4, lambda i: os.getpid()), num_workers=1, persistent_workers=True)
    first = next(iter(loader)).item()
    os.kill(first, signal.SIGKILL)
    with pytest.raises(data.WorkerError, match="SIGKILL"):
        list(loader)
    assert {batch.item() for batch in loader} != {first}


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyError("five"), ValueError(5), DataError("five"), FileNotFoundError(2, "five")])
def test_an_exception_keeps_its_type_and_traceback(error):
    with pytest.raises(type(error)) as caught:
        list(data.DataLoader(Read(3, raising(error)), num_workers=2))
    text = str(caught.value)
    assert text.startswith(f"Caught {type(error).__name__} in DataLoader worker process 0.\nOriginal Traceback (most ")
    assert "test_worker_pool.py" in text
    assert "\n    raise error\n" in text


def test_an_exception_that_cannot_be_made_again_is_a_worker_error():
    class Local(Exception):
        pass

    for error in (TwoParts(1, 2), Local("x"), StopIteration("x")):
        with pytest.raises(data.WorkerError, match=f"Caught {type(error).__name__} in DataLoader worker process 0"):
            list(data.DataLoader(Read(3, raising(error)), num_workers=1))


def test_a_batch_that_cannot_be_sent_is_a_failure():
    with pytest.raises(Exception, match=r"Caught .* in DataLoader worker process 0[\s\S]*pickle"):
        list(data.DataLoader(Read(3, lambda i: lambda: i), batch_size=None, num_workers=1))


def test_a_failing_start_is_told_with_the_first_batch():
    def start(worker):
        raise OSError("no such disk")

    with pytest.raises(OSError, match=r"worker process 0[\s\S]*no such disk"):
        list(data.DataLoader(range(3), num_workers=2, worker_init_fn=start))


def test_after_an_exception_the_next_batch_can_be_had():
    batches = iter(data.DataLoader(Read(6, lambda i: 1 // (i - 2)), num_workers=2))
    seen = []
    while True:
        try:
            seen.append(next(batches).item())
        except ZeroDivisionError:
            seen.append("failed")
        except StopIteration:
            break
    assert seen == [-1, -1, "failed", 1, 0, 0]


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by signal SIGKILL"),
        (lambda: os._exit(3), "exited unexpectedly with code 3"),
        (lambda: sys.exit(4), "exited unexpectedly with code 4"),
    ],
)
def test_the_end_of_a_worker_is_an_error_at_once(end, text):
    def read(i):
        if i == 1:
            end()
        time.sleep(0.2 if i == 0 else 0)
        return i

    start = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"DataLoader worker 1 \(pid \d+\) {text}"):
        list(data.DataLoader(Read(8, read), num_workers=2))
    assert time.monotonic() - start < 2


def test_a_worker_killed_while_it_sends_is_an_error():
    loader = data.DataLoader(Read(4, lambda i: np.zeros(1 << 21)), num_workers=1)
    batches = iter(loader)
    (worker,) = multiprocessing.active_children()
    time.sleep(0.1)  # by now the pipe is full and the first batch partly sent
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(data.WorkerError, match="SIGKILL"):
        list(batches)
    assert list(batches) == []


def test_a_worker_that_is_silent_for_long_is_spoken_of_once_and_says_where_it_is(tmp_path, capfd, monkeypatch):
    door, looks, began = tmp_path / "door", [], time.monotonic()

    def wait_for_it(i):
        while i and not door.exists():
            time.sleep(0.01)
        return i

    def look(seconds):
        looks.append(seconds)
        # The first look is behind the notice: only what the worker prints then lets it go on.
        while len(looks) == 1 and "most recent call first" not in capfd.readouterr().err:
            assert time.monotonic() < began + 60
            time.sleep(0.01)
        door.touch()
        return real_look(seconds)

    batches = iter(data.DataLoader(Read(3, wait_for_it), num_workers=1))
    assert int(next(batches)) == 0
    real_look = batches._crew._look
    monkeypatch.setattr(batches._crew, "_look", look)
    monkeypatch.setattr(worker_pool, "SLOW_WARNING_SECONDS", 0.0)
    with pytest.warns(data.SlowWorkerWarning, match=r"DataLoader worker 0 \(pid \d+\) has sent nothing") as warned:
        assert [int(b) for b in batches] == [1, 2]
    assert len(warned) == 1


def test_an_error_of_ours_in_a_worker_names_the_line_of_the_loop():
    with pytest.raises(DataError, match=rf"{pathlib.Path(__file__).name}:\d+: stack expects each tensor"):
        list(data.DataLoader(Read(4, lambda i: creation.ones(i + 1)), batch_size=2, num_workers=1))


def test_timeout_names_the_worker():
    read = Read(4, lambda i: (time.sleep(30 * (i == 1)), i)[1])
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"timed out after 1 seconds: worker 1 \(pid"):
        list(data.DataLoader(read, num_workers=2, timeout=1))
    assert time.monotonic() - start < 6


def test_a_worker_has_no_workers():
    inner = Read(2, lambda i: next(iter(data.DataLoader(range(2), num_workers=1))))
    with pytest.raises(DataError, match="a worker of a DataLoader cannot start workers"):
        list(data.DataLoader(inner, num_workers=1))


def test_a_context_is_a_context():
    with pytest.raises(TypeError, match="multiprocessing_context"):
        data.DataLoader(range(2), num_workers=1, multiprocessing_context=3)


# -- nothing is left -------------------------------------------------------------------------------------------------


def test_leaving_early_ends_the_workers():
    start = time.monotonic()
    for batch in data.DataLoader(Read(1000, lambda i: np.zeros(200_000)), num_workers=3):
        assert len(multiprocessing.active_children()) == 3
        assert batch.shape == (1, 200_000)
        break
    assert multiprocessing.active_children() == []
    assert time.monotonic() - start < 2


def test_large_orders_and_large_batches_do_not_block_each_other():
    order = [list(range(200_000))] * 4
    loader = data.DataLoader(range(200_000), batch_sampler=order, num_workers=1, collate_fn=np.array)
    assert [batch.sum() for batch in loader] == [sum(range(200_000))] * 4


SCRIPT = """
import os, signal, sys, time
from lazytensor import data

class Pids(data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        return os.getpid()

if __name__ == "__main__":
    loader = data.DataLoader(Pids(), num_workers=2, multiprocessing_context=CONTEXT, persistent_workers=True)
    batches = iter(loader)
    print(next(batches).item(), next(batches).item(), flush=True)
    END
"""


@pytest.mark.parametrize(
    ("context", "end", "code"),
    [("fork", "pass", 0), ("fork", "os.kill(os.getpid(), signal.SIGKILL)", -9), ("spawn", "sys.exit(3)", 3)],
)
def test_the_end_of_the_parent_is_that_of_the_workers(tmp_path, context, end, code):
    path = tmp_path / "pids.py"
    path.write_text(textwrap.dedent(SCRIPT).replace("CONTEXT", repr(context)).replace("END", end))
    done = python(str(path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, "")
    pids = [int(word) for word in done.stdout.split()]
    deadline = time.monotonic() + 2
    while not all(map(is_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(set(pids)) == 2
    assert all(map(is_gone, pids))


def test_workers_go_even_where_a_signal_comes_while_they_are_sent_home(monkeypatch):
    batches = iter(data.DataLoader(Read(8, lambda i: i), num_workers=2))
    processes, pipes = list(batches._crew._processes), list(batches._crew.pipes)
    monkeypatch.setattr(worker_pool.time, "monotonic", lambda: interrupt())

    def interrupt():
        monkeypatch.undo()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batches._crew.close()
    assert all(pipe.closed for pipe in pipes)
    for process in processes:
        process.join()
