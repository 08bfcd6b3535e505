"""Signals that end a run: the exit status that a shell would say, one sentence, and nothing of ours in the way."""

import signal

import pytest

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
