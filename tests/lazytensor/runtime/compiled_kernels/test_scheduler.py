"""The scheduler of shared steps: compiled, and as plain functions of Python that threads of Python run."""

import ctypes
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest

import lazytensor as lt
from cstorch_compat.names import installation
from lazytensor import config
from lazytensor.llvm import machine_code, thread_instructions
from lazytensor.llvm.emit import kernel_text
from lazytensor.runtime import jit, schedule
from lazytensor.runtime.compiled_kernels import scheduler
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int64)


class Compiled:
    """The scheduler as machine code, with the names of the plain functions."""

    def __getattr__(self, name):
        return jit.machine_code(jit.read_kernel("scheduler"), name)


class CompiledForPosixThreads:
    """The scheduler as machine code in which threads wait by a lock and a condition variable."""

    def __init__(self, folder):
        self._folder = folder

    def __getattr__(self, name):
        with config.override(cache=str(self._folder)):
            return jit.machine_code(jit.read_kernel("scheduler"), name)


@pytest.fixture
def pthread(monkeypatch, tmp_path_factory):
    """The scheduler in which threads wait as on a system that has POSIX threads only."""
    if not llvm.address_of_symbol("pthread_cond_wait"):
        pytest.skip("this system has no POSIX threads")
    machine_code._surroundings.cache_clear()
    for module in (thread_instructions, machine_code):
        monkeypatch.setattr(module, "way_to_wait", lambda: "pthread")
    yield CompiledForPosixThreads(tmp_path_factory.getbasetemp() / "pthread")
    machine_code._surroundings.cache_clear()


@pytest.fixture(params=["plain", "compiled", "pthread"])
def way(request):
    if request.param == "pthread":
        return request.getfixturevalue("pthread")
    if request.param == "compiled" and not schedule.can_share():
        pytest.skip("threads of this system cannot wait for each other")
    return scheduler if request.param == "plain" else Compiled()


def _new_block():
    """Return the words that the threads of a scheduler share, ready to be waited for."""
    memory = np.zeros(scheduler.BLOCK_WORDS + 8, np.int64)
    start = -memory.ctypes.data % 64 // 8
    thread_instructions.prepare_words(memory[start:].ctypes.data)
    return memory[start:]


class Steps:
    """A table of steps whose parts note when they begin, how many had ended by then, and the memory they were given."""

    def __init__(self, counts, seconds=0.0):
        self.begun, self.ended, self.given, self.threads = [], [], set(), set()
        self.memory = np.zeros((sum(counts), 2), np.int64)
        self._callback = CALLBACK(self._part)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        self._entries, number = [], 0
        self.table = np.zeros((len(counts), 2), np.int64)
        for k, count in enumerate(counts):
            rows = [[address, number + p, *self._targets(number + p)] for p in range(count)]
            self._entries.append(np.array(rows, np.int64))
            self.table[k] = count, self._entries[-1].ctypes.data
            number += count
        self._lock, self._seconds = threading.Event(), seconds

    def _targets(self, number):
        """Where the working memory of the thread and the result of the part go."""
        at = self.memory[number].ctypes.data
        return at, at + 8

    def _part(self, number):
        self.begun.append((number, len(self.ended)))
        self.threads.add(threading.get_ident())
        self.given.add((threading.get_ident(), int(self.memory[number, 0])))
        # Later parts take longer, so that a step that began too soon would overlap the one before.
        self._lock.wait(self._seconds * (1 + number % 3))
        self.ended.append(number)
        return True


@pytest.mark.parametrize("helpers", [0, 1, 2])
def test_every_part_runs_once_and_steps_run_one_after_the_other(way, helpers):
    counts = [1, 5, 1, 17, 2, 3]
    steps, block = Steps(counts, 0.001), _new_block()
    at = block.ctypes.data
    # The first word of each thread is the address of its working memory: here a number that tells which it is.
    places = np.zeros((helpers + 1, 8), np.int64)
    places[:, 0] = np.arange(100, 101 + helpers)
    others = [threading.Thread(target=way.serve, args=(at, places[k + 1].ctypes.data)) for k in range(helpers)]
    for thread in others:
        thread.start()
    for turn in range(3):
        way.run(at, steps.table.ctypes.data, len(counts), places.ctypes.data)
        assert sorted(steps.ended) == sorted([*range(sum(counts))] * (turn + 1))
    way.stop(at)
    for thread in others:
        thread.join(30)
        assert not thread.is_alive()
    # When a part begins, all parts of the steps before it have ended.
    before = np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    for k, (number, ended) in enumerate(steps.begun):
        assert ended >= before[number] + k // sum(counts) * sum(counts)
    # No two threads were given the same working memory.
    assert len(steps.given) == len(steps.threads) == len({memory for _, memory in steps.given})
    assert {memory for _, memory in steps.given} <= set(places[:, 0])
    assert (steps.memory[:, 1] == 1).all()


def test_threads_share_the_parts_of_a_step(way):
    steps, block = Steps([40], 0.005), _new_block()
    places = np.zeros((2, 8), np.int64)
    other = threading.Thread(target=way.serve, args=(block.ctypes.data, places[1].ctypes.data))
    other.start()
    way.run(block.ctypes.data, steps.table.ctypes.data, 1, places.ctypes.data)
    way.stop(block.ctypes.data)
    other.join(30)
    assert len(steps.threads) == 2
    # The thread that runs the table takes the last parts, the others the first ones.
    assert steps.begun[-1][0] not in (0, 39)


def test_threads_that_found_no_work_for_long_sleep_and_are_woken(way):
    block, places = _new_block(), np.zeros((2, 8), np.int64)
    other = threading.Thread(target=way.serve, args=(block.ctypes.data, places[1].ctypes.data))
    other.start()
    pause = threading.Event()
    for _ in range(3000):
        if block[scheduler.SLEEPERS]:
            break
        pause.wait(0.01)
    assert block[scheduler.SLEEPERS] == 1
    steps = Steps([8], 0.01)
    way.run(block.ctypes.data, steps.table.ctypes.data, 1, places.ctypes.data)
    assert sorted(steps.ended) == list(range(8)) and len(steps.threads) == 2
    way.stop(block.ctypes.data)
    other.join(30)
    assert not other.is_alive()


@pytest.mark.parametrize("wait", ["futex", "os_sync", "ulock", "on_address", "pthread", ""])
@pytest.mark.parametrize("name", ["run", "serve", "stop"])
def test_the_scheduler_compiles_for_each_way_to_wait(wait, name, monkeypatch):
    monkeypatch.setattr(thread_instructions, "way_to_wait", lambda: wait)
    text, _ = kernel_text(jit.read_kernel("scheduler"), "kernel", name)
    llvm.parse_assembly(text).verify()
    calls = {"futex": "@syscall(", "os_sync": "@os_sync_w", "ulock": "@__ulock_w"}
    calls |= {"on_address": "Address", "pthread": "@pthread_"}
    assert [way for way, call in calls.items() if call in text] == ([wait] if wait else [])


SYSTEM_FUNCTIONS = {
    "win32": ("on_address", "QueryPerformanceCounter QueryPerformanceFrequency WaitOnAddress WakeByAddressAll"),
    "darwin": ("ulock", "clock_gettime __ulock_wait __ulock_wake"),
    "freebsd14": (
        "pthread",
        "clock_gettime pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_broadcast",
    ),
}


@pytest.mark.parametrize("platform", SYSTEM_FUNCTIONS)
def test_scheduler_calls_only_functions_of_its_system(platform, monkeypatch):
    wait, names = SYSTEM_FUNCTIONS[platform]
    monkeypatch.setattr(thread_instructions, "way_to_wait", lambda: wait)
    monkeypatch.setattr(thread_instructions.sys, "platform", platform)
    called = set()
    for name in ("run", "serve", "stop"):
        text, _ = kernel_text(jit.read_kernel("scheduler"), "kernel", name)
        module = llvm.parse_assembly(text)
        module.verify()
        called |= {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    assert called == set(names.split())


def test_where_threads_cannot_wait_a_program_runs_with_one_and_info_says_so(monkeypatch):
    monkeypatch.setattr(schedule, "can_share", lambda: False)
    monkeypatch.setattr(schedule, "_crews", {})
    x = np.linspace(-1, 1, 300_000, dtype=np.float32)
    with config.override(threads=3, jit=True):
        program = lt.trace(lambda t: t.exp().sin().sum(), lt.tensor(x))
        (result,) = HostBackend().compile(program, Store()).step([x])
        np.testing.assert_allclose(result, np.sin(np.exp(x)).sum(), rtol=1e-4)
        assert list(schedule._crews) == [1]
        assert installation.collect_information()["step threads"].startswith("1: threads cannot wait")
