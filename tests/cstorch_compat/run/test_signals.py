"""Signals that end a run: the exit status that a shell would say, one sentence, and nothing of ours in the way."""

import os
import signal
import time

import pytest

from cstorch_compat.__main__ import main
from lazytensor.system import signals

STATUS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}


@pytest.fixture(autouse=True)
def signals_that_nobody_ignores():
    """As in a terminal: tests that run in the background, or behind nohup, begin with some of them ignored."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", STATUS)
def test_a_signal_ends_a_run_with_its_status_and_one_sentence(name, script):
    before = signal.getsignal(getattr(signal, name))
    done = script(
        f"""
        import os, signal, time
        try:
            os.kill(os.getpid(), signal.{name})
            for _ in range(500):
                time.sleep(0.01)
        finally:
            print("tidied up")
        """,
        preamble="",
    )
    assert (done.returncode, done.stdout) == (STATUS[name], "tidied up\n")
    assert done.stderr == f"lazywafer: stopped by {name}\n"
    assert signal.getsignal(getattr(signal, name)) is before


@pytest.mark.parametrize("name", STATUS)
def test_a_signal_that_comes_in_a_callback_of_a_weak_reference_is_not_lost(name, script):
    done = script(
        f"""
        import os, signal, time, weakref

        class Thing:
            pass

        def callback(ref):
            os.kill(os.getpid(), signal.{name})
            for _ in range(100):
                pass

        thing = Thing()
        ref = weakref.ref(thing, callback)
        del thing
        for _ in range(500):
            time.sleep(0.01)
        print("went on")
        """,
        preamble="",
    )
    assert (done.returncode, done.stdout) == (STATUS[name], "")
    assert done.stderr == f"lazywafer: stopped by {name}\n"


def test_what_a_script_does_with_a_signal_counts(script):
    done = script(
        """
        import os, signal, time
        signal.signal(signal.SIGTERM, lambda *_: print("mine"))
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(500):
                time.sleep(0.01)
        except KeyboardInterrupt:
            print("mine too")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        """,
        preamble="",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\nmine too\n", "")


def test_an_error_behind_an_interrupt_is_shown_and_the_status_is_that_of_the_interrupt(script):
    done = script(
        """
        import os, signal, time
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(500):
                time.sleep(0.01)
        except KeyboardInterrupt:
            raise ValueError("while saving")
        """,
        preamble="",
    )
    assert done.returncode == 130 and "ValueError: while saving" in done.stderr


def test_a_command_that_runs_no_script_says_the_same(monkeypatch, capsys):
    def info(as_json):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(500):
            time.sleep(0.01)

    monkeypatch.setattr("cstorch_compat.__main__.print_info", info)
    assert main(["info"]) == 143
    assert capsys.readouterr().err == "lazywafer: stopped by SIGTERM\n"


def test_a_signal_waits_for_the_end_of_a_block_that_it_may_not_interrupt():
    passed = []
    with pytest.raises(KeyboardInterrupt):
        with signals.defer_signals():
            os.kill(os.getpid(), signal.SIGINT)
            passed.append("the kill")
        passed.append("the end")
    assert passed == ["the kill"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.process
@pytest.mark.parametrize("name", STATUS)
def test_a_signal_does_not_interrupt_the_fork_of_a_worker(name, script, monkeypatch):
    # Before, the lock of `logging` was not taken in front of the fork, and an error told of that behind it.
    passed, fork = [], os.fork

    def interrupted():
        os.kill(os.getpid(), getattr(signal, name))
        passed.extend(range(9))
        return fork()

    monkeypatch.setattr(os, "fork", interrupted)
    done = script(
        """
        from torch.utils.data import DataLoader
        for x in DataLoader(list(range(4)), num_workers=1):
            print(x)
        """,
        preamble="",
    )
    assert passed and (done.returncode, done.stdout) == (STATUS[name], "")
    assert done.stderr == f"lazywafer: stopped by {name}\n"


@pytest.mark.process
def test_a_process_that_is_forked_in_a_postponed_block_hears_signals(capfd):
    with signals.defer_signals():
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
            signal.alarm(20)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(500):
                    time.sleep(0.01)
            except KeyboardInterrupt:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_signal_in_a_save_is_no_error_of_hdf5(script):
    done = script(
        """
        import os, signal, torch
        import cerebras.pytorch as cstorch
        from cstorch_compat.files.h5_file_object import H5Sink as Sink

        write = Sink.write

        def interrupted(sink, data):
            Sink.write = write
            os.kill(os.getpid(), signal.SIGTERM)
            return write(sink, data)

        Sink.write = interrupted
        cstorch.save({"x": torch.ones(3)}, "x.mdl")
        """,
        preamble="",
    )
    assert (done.returncode, done.stderr) == (143, "lazywafer: stopped by SIGTERM\n")
