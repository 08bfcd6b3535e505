"""The quick run, `pytest --quick`: no other process, no machine code, one example of a property.

It says what it leaves out. No list says which tests are quick. Each test runs until it asks for what a quick run does
not give, and is skipped at that point with the reason, so a new test falls on its side by itself. Two marks help:
`slow` for a test that computes for long without asking for anything, `process` for a file whose fixtures count what
processes leave behind.
"""

import collections
import gc
import importlib
import os
import subprocess
import time
from collections.abc import Iterator
from multiprocessing import util
from typing import Any

import hypothesis
import numpy.testing  # noqa: F401 - NumPy 2.0 asks lscpu about the processor here, which is no test's process
import pytest

from lazytensor.config import override
from lazytensor.native import machine

EXAMPLES = 1
"""Examples of a property in a quick run: that it holds at all; `make test` looks for what breaks it."""
BUDGET_SECONDS = 1.5
"""Computing time of one quick test; the summary names tests above it, to be split or marked as slow."""
PREFIX = "quick: "
PROCESS, CODE, SLOW = "starts a process", "needs machine code", "marked slow"
MARKS = {"process": PROCESS, "slow": SLOW}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="no processes, no machine code, one example of a property")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.quick:
        config.pluginmanager.register(QuickRun())


class QuickRun:
    """The hooks of a run with `--quick`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Skip a test, or a fixture for it, that starts a process or compiles or loads a function."""
        dispatcher = importlib.import_module("numba.core.dispatcher").Dispatcher
        with override(jit=False), pytest.MonkeyPatch.context() as patch:
            patch.setenv("LT_JIT", "0")
            patch.setattr(dispatcher, "compile", _left_out(CODE))
            patch.setattr(machine, "load", _left_out(CODE))
            patch.setattr(subprocess.Popen, "__init__", _left_out(PROCESS))
            for module, name in ((os, "fork"), (os, "system"), (util, "spawnv_passfds")):
                patch.setattr(module, name, _left_out(PROCESS))
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = time.process_time()
        try:
            return (yield)
        finally:
            item.user_properties.append(("computing", time.process_time() - before))

    def pytest_collection_finish(self) -> None:
        # Seven thousand tests are many objects, and none of them is garbage before the end.
        gc.freeze()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark, reason in MARKS.items():
                if item.get_closest_marker(mark):
                    item.add_marker(pytest.mark.skip(reason=PREFIX + reason))
            _shorten(getattr(item, "function", None))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """How many tests were left out and why, and which take longer than a quick test may."""
        skipped = [report.longrepr[2] for report in terminalreporter.getreports("skipped")]
        reasons = collections.Counter(
            text.partition(PREFIX)[2].partition("\n")[0] for text in skipped if PREFIX in text
        )
        if reasons:
            parts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
            terminalreporter.line(f"left out of the quick run: {parts}; make test runs all")
        for report in terminalreporter.getreports("passed"):
            if (seconds := dict(report.user_properties).get("computing", 0)) > BUDGET_SECONDS:
                terminalreporter.line(f"{seconds:.1f} s, more than a quick test may take: {report.nodeid}")


def _left_out(reason: str) -> Any:
    def skip(*args: Any, **kwargs: Any) -> None:
        pytest.skip(PREFIX + reason)

    return skip


def _shorten(function: Any) -> None:
    """Lower a property's number of examples."""
    name = "_hypothesis_internal_use_settings"  # a profile does not reach a test that names a number itself
    if settings := getattr(function, name, None):
        fewer = min(settings.max_examples, EXAMPLES)
        setattr(
            function,
            name,
            hypothesis.settings(
                settings,
                max_examples=fewer,
                deadline=None,
                database=None,
                phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            ),
        )
