"""Manners of the command line: versions, modules, standard input, and readers that stop reading."""

import argparse
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import cstorch_compat
from cstorch_compat.__main__ import _make_parser
from cstorch_compat.names import manifest
from cstorch_compat.run import script as scripts
from lazytensor import config
from lazytensor.system import private_files
from tests.conftest import ROOT, lazywafer
from tests.cstorch_compat.check import faults

SAYS = "import sys\nprint(__name__, sys.argv[1:], file=sys.stdout)\n"


def test_version_is_that_of_the_package(tmp_path):
    assert lazywafer("--version", cwd=tmp_path).stdout.split() == ["lazywafer", cstorch_compat.__version__]


def test_info_as_json_has_what_the_text_has(tmp_path):
    facts = json.loads(lazywafer("info", "--json", cwd=tmp_path).stdout)
    lines = lazywafer("info", cwd=tmp_path).stdout.splitlines()
    assert [line.split(maxsplit=1)[0] for line in lines] == [name.split()[0] for name in facts]
    assert facts["lazywafer"] == cstorch_compat.__version__


def test_help_tells_the_switches_of_the_environment(tmp_path):
    said = lazywafer("--help", cwd=tmp_path).stdout
    assert all(f"\n{name}=" in said for name in ("LT_DEBUG", "LT_DUMP", "LT_CHECK", "LT_TRACEBACK"))


HELP = {
    (): ("--version", "check", "example", "opt", "place", "stubs", "completion", "LT_DEBUG", "LT_DUMP"),
    ("run",): ("--html", "--trace", "--report", "--profile", " -m ", "- is standard input"),
    ("plan",): ("--html", "--json", "--mode", "--pol", "--systems", " -m ", "- is standard input"),
    ("check",): ("--json", "--output", "--api"),
    ("opt",): ("--passes", "--dot", "--onnx"),
    ("place",): ("FILE.kgraph", "--json", "--svg", "--trade"),
    ("example",): ("NAME",),
    ("info",): ("--json",),
    ("cache",): ("--clear", "kernels"),
    ("coverage",): ("--json", "--list"),
    ("completion",): ("bash", "zsh", "tcsh"),
    ("stubs",): ("DIR", "Pyright", "mypy"),
    ("validate",): ("NAME", "--json", "--simulate", "--record", "--placement", "--rows"),
    ("ckpt",): ("ls", "show", "diff", "verify", "convert", "exit status is 1"),
    ("ckpt", "ls"): ("--json", "safetensors"),
    ("ckpt", "show"): ("key", "as printed by ls"),
    ("ckpt", "diff"): ("--rtol", "--atol", "--json"),
    ("ckpt", "verify"): ("checksums", "exit status is 1"),
    ("ckpt", "convert"): ("--to", "--key", "--flatten", "--force"),
}
"""What the help of each command has to tell."""


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with those below it, and its parser."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands(inner, (*path, name))


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_help_of_a_command_tells_what_it_takes(command, tmp_path):
    done = lazywafer(*command, "--help", cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0 and [word for word in HELP[command] if word.strip() not in said] == []


def test_every_command_and_argument_says_what_it_is_for():
    parsers = dict(commands(_make_parser()[0]))
    assert parsers.keys() == HELP.keys()
    for path, parser in parsers.items():
        assert parser.description and parser.description.endswith("."), path
        silent = [a.dest for a in parser._actions if not a.help and not isinstance(a, argparse._SubParsersAction)]
        assert silent == [], path


def test_a_shell_completes_commands_and_options(tmp_path):
    pytest.importorskip("shtab", reason="shtab is the extra `completion`")
    said = lazywafer("completion", "bash", cwd=tmp_path).stdout
    assert "coverage" in said and "--closure-lag" in said
    assert lazywafer("completion", "fish", cwd=tmp_path).returncode == 2


def test_completion_says_what_is_to_be_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = lazywafer("completion", "bash", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and "pip install lazywafer[completion]" in done.stderr


REFUSED = """
import torch, cerebras.pytorch as cstorch
backend = cstorch.backend("CSX")
model = cstorch.compile(torch.nn.Linear(2, 2), backend)
@cstorch.trace
def step(batch):
    return model(batch).sum().item()
loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(2, 2)] * 2)
for batch in cstorch.utils.data.DataExecutor(loader, num_steps=1):
    step(batch)
"""


def test_a_refusal_points_to_the_check(tmp_path):
    (tmp_path / "a script.py").write_text(REFUSED)
    done = lazywafer("run", "a script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Run `lazywafer check 'a script.py'`")
    (tmp_path / "wrong.py").write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    assert "lazywafer check" not in lazywafer("run", "wrong.py", cwd=tmp_path).stderr


@pytest.mark.slow
def test_prediction_is_printed_even_if_the_script_fails_after_its_steps(tmp_path):
    text = faults.script() + "raise ValueError('after all steps')\n"
    (tmp_path / "train.py").write_text(text)
    done = lazywafer("run", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "after all steps" in done.stderr
    assert "A step with 4 samples on wse2, predicted:" in done.stdout


def test_coverage_as_json_has_each_name_with_its_reason(tmp_path, monkeypatch):
    # All names together take half a minute; test_shim.py has them.
    monkeypatch.setattr(manifest, "known_names", lambda: {"torch.add", "torch.AliasDb"})
    monkeypatch.setattr(manifest, "PARTIAL_REASONS", {"torch.load": "a part of it"})
    names = {row.pop("name"): row for row in json.loads(lazywafer("coverage", "--json", cwd=tmp_path).stdout)}
    assert names["torch.add"] == {"status": "full", "reason": ""}
    assert names["torch.load"] == {"status": "partial", "reason": "a part of it"}
    assert names["torch.AliasDb"]["status"] == "missing" and names["torch.AliasDb"]["reason"]


def test_a_module_is_run_by_its_name(tmp_path):
    (tmp_path / "models_of_mine").mkdir()
    (tmp_path / "models_of_mine" / "__init__.py").write_text("")
    (tmp_path / "models_of_mine" / "train.py").write_text(SAYS)
    done = lazywafer("run", "-m", "models_of_mine.train", "--epochs", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "__main__ ['--epochs', '3']\n"), done.stderr
    done = lazywafer("run", "-m", "models_of_mine.test", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "lazywafer: the module models_of_mine.test does not exist\n")


def test_a_script_comes_from_standard_input(tmp_path, monkeypatch):
    scripts._read_standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", io.StringIO(SAYS + "raise SystemExit(3)\n"))
    done = lazywafer("run", "-", "a", cwd=tmp_path)
    scripts._read_standard_input.cache_clear()
    assert (done.returncode, done.stdout) == (3, "__main__ ['a']\n"), done.stderr


@pytest.mark.process
def test_a_reader_that_stops_is_no_error(tmp_path):
    (tmp_path / "script.py").write_text("for i in range(100_000):\n    print('a line', i)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "cstorch_compat", "run", "script.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline()
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait() == 141


@pytest.mark.process
def test_a_command_that_computes_nothing_does_not_wait_for_numba():
    said = "import sys, cstorch_compat.__main__\nprint('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_cache_counts_kernels_and_clears_them(tmp_path):
    with config.override(cache=str(tmp_path / "cache")):
        private_files.write_kernel("one.kernel", b"code")
        said = lazywafer("cache", cwd=tmp_path).stdout
        assert said.startswith(f"{tmp_path / 'cache'}: 1 kernels, 0.0 MB of at most ")
        assert ": 0 kernels" in lazywafer("cache", "--clear", cwd=tmp_path).stdout
        assert private_files.read_kernel("one.kernel") is None
