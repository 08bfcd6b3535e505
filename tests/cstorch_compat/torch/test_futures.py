"""Values that are set later."""

import threading

import pytest

from cstorch_compat.torch.futures import Future, collect_all, wait_all


def test_callbacks_run_when_the_value_is_set_and_pass_errors_on():
    f, seen = Future(), []
    g = f.then(lambda f: f.value() + 1).then(lambda g: 10 // (g.value() - 3))
    f.add_done_callback(lambda f: seen.append(f.value()))
    assert not f.done() and not g.done()
    f.set_result(2)
    assert seen == [2] and f.wait() == 2
    with pytest.raises(ZeroDivisionError):
        g.wait()
    with pytest.raises(RuntimeError, match="already completed"):
        f.set_result(3)


def test_wait_waits_for_another_thread():
    futures = [Future() for _ in range(3)]
    whole = collect_all(futures)
    threads = [threading.Thread(target=f.set_result, args=(k,)) for k, f in enumerate(futures)]
    for thread in threads:
        thread.start()
    assert wait_all(futures) == [0, 1, 2] and [f.value() for f in whole.wait()] == [0, 1, 2]
    for thread in threads:
        thread.join()
    assert collect_all([]).wait() == []


def test_a_value_that_is_not_set_and_no_exception_are_errors():
    with pytest.raises(RuntimeError, match="not completed"):
        Future().value()
    with pytest.raises(TypeError, match="not an Exception"):
        Future().set_exception(1)
    failed = Future()
    failed.set_exception(ValueError("late"))
    with pytest.raises(ValueError, match="late"):
        failed.wait()
