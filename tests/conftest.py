"""Fixtures: a script runs in the process of the tests, which starts over behind it, or in one of its own."""

import contextlib
import functools
import io
import os
import pathlib
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from cstorch_compat import __main__
from cstorch_compat.names import public_modules, shim
from cstorch_compat.run.process import RUN
from lazytensor import config
from tests import browser

# How long an example takes says more about what else the machine does than about what is tested.
hypothesis.settings.register_profile("any load", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("any load")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take one example of each property in a run that leaves out slow tests."""
    if "not slow" in config.option.markexpr:
        name = "_hypothesis_internal_use_settings"  # a profile does not reach a test that gives a number itself
        for function in {getattr(item, "function", None) for item in items}:
            if given := getattr(function, name, None):
                setattr(function, name, hypothesis.settings(given, max_examples=1, database=None))


ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
PREAMBLE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

def loader(n=3, rows=4):
    return cstorch.utils.data.DataLoader(
        lambda: [(torch.eye(rows, 6) * (i + 1.5) + 0.1, torch.arange(rows) % 3) for i in range(n)]
    )

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

"""


def training(backend: str = "CSX", steps: int = 5) -> str:
    """The end of a script behind the preamble: it trains for some steps and prints the loss in a closure."""
    return f"""
backend = cstorch.backend({backend!r})
model = MLP()
compiled = cstorch.compile(model, backend)

@cstorch.trace
def step(batch):
    return F.cross_entropy(compiled(batch[0]), batch[1].long())

@cstorch.step_closure
def log(loss):
    print(loss.item())

for batch in cstorch.utils.data.DataExecutor(loader(), num_steps={steps}):
    log(step(batch))
"""


def python(*args: str, cwd: pathlib.Path) -> subprocess.CompletedProcess:
    """Run Python with the checkout importable; output as text."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run([sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


@pytest.fixture(autouse=True, scope="session")
def check_between_passes() -> Iterator[None]:
    """Every graph that a test compiles is checked after each pass, here and in the processes that tests start."""
    with pytest.MonkeyPatch.context() as patch, config.override(check=True):
        patch.setenv("LT_CHECK", "1")
        yield


def lazywafer(*args: str, cwd: pathlib.Path) -> subprocess.CompletedProcess:
    """Run a command of `lazywafer` in this process and start over behind it; what `python` would have returned.

    Warnings are errors, as there. Not for what is about processes: exit codes of signals, workers, encodings.
    """
    out, err = io.StringIO(), io.StringIO()
    modules, own_run = set(sys.modules), dict(vars(RUN))
    with contextlib.ExitStack() as undone:
        undone.enter_context(contextlib.chdir(cwd))
        undone.enter_context(warnings.catch_warnings(action="error"))
        warnings.showwarning = _to_stderr
        warnings.simplefilter("ignore", ResourceWarning)  # scripts leave files to the end of the process
        patch = undone.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", ["lazywafer", *args])
        patch.setattr(sys, "path", [*sys.path])
        undone.callback(lambda: vars(RUN).update(own_run))
        undone.callback(start_over, modules, cwd)
        RUN.reset()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = __main__.main([*args])
            except SystemExit as e:  # the command line was wrong
                status = e.code
    return subprocess.CompletedProcess(args, status, out.getvalue(), err.getvalue())


def start_over(modules: set[str], folder: pathlib.Path) -> None:
    """Be as before a script: nothing of it is held, and none of the modules in its folder is loaded."""
    RUN.reset()
    shim.uninstall()
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


def _to_stderr(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning as a process does; pytest would collect it."""
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


@pytest.fixture
def pytorch_names() -> Iterator[None]:
    """Let classes, types and shapes print PyTorch's text, as they do while the import shim is installed."""
    public_modules.set_public_names()
    yield
    public_modules.restore_original_names()


Script = Callable[..., subprocess.CompletedProcess]


def runner(folder: pathlib.Path, command: Callable[..., subprocess.CompletedProcess]) -> Script:
    """What runs the text of a script through `lazywafer run` in a folder; the preamble above is put in front."""

    def run(
        body: str, *args: str, options: tuple[str, ...] = (), preamble: str = PREAMBLE
    ) -> subprocess.CompletedProcess:
        path = folder / "script.py"
        path.write_text(preamble + textwrap.dedent(body))
        return command("run", *options, str(path), *args, cwd=folder)

    return run


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Script:
    """Run the text of a script in an empty folder, in this process."""
    return runner(tmp_path, lazywafer)


@pytest.fixture
def script_process(tmp_path: pathlib.Path) -> Script:
    """Run the text of a script in an empty folder, in a process of its own."""
    return runner(tmp_path, functools.partial(python, "-m", "cstorch_compat"))


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    """A page of a browser. Skips the test where there is no Chromium."""
    if browser.executable() is None:
        pytest.skip("there is no Chromium here; CHROMIUM may name one")
    with browser.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
