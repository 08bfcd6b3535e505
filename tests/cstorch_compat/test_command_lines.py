"""Wrong values of every option end in one sentence: the option, the value, what is allowed. The parser is walked."""

import argparse

import pytest

from cstorch_compat.__main__ import _make_parser
from tests.conftest import lazywafer
from tests.cstorch_compat.test_commands import commands

LONG = "9" * 401
HOSTILE = ("", ",", "8,", "²", "1e400", "nan", LONG, "-1", "0", "1.5", "8,8", "no_such_name", "red\x1b[31m", "\udcff.x")
ALLOWED = {
    "--api": {"1.5"},
    "--batch": {"8,8"},
    "--systems": {"8,8"},
    "--workers": {"8,8"},
    "--users": {"8,8"},
    "--closure-lag": {"0"},
    "--pol": {"0"},
    "--rtol": {"0", "1.5"},
    "--atol": {"0", "1.5"},
    "--key": set(HOSTILE) - {""},  # any name may be one of a file
}
"""Values that an option takes, of those above; of any other option none."""


def is_of_values(action: argparse.Action) -> bool:
    return action.nargs != 0 and not isinstance(action, argparse._SubParsersAction)


COMMANDS = {path: parser for path, parser in commands(_make_parser()[0]) if path}
OPTIONS = [
    (path, action.option_strings[-1])
    for path, parser in COMMANDS.items()
    for action in parser._actions
    if action.option_strings and is_of_values(action)
]
POSITIONALS = [
    (path, action.dest)
    for path, parser in COMMANDS.items()
    for action in parser._actions
    if not action.option_strings and is_of_values(action) and action.nargs != argparse.REMAINDER
]


def required(path: tuple[str, ...]) -> list[str]:
    """Words for what a command cannot go without: files that do not exist, so that it ends at once."""
    parser = COMMANDS[path]
    return ["nowhere.py" for a in parser._actions if not a.option_strings and a.nargs is None and not a.choices]


def shown(value: str) -> str:
    """The first letters of a value as a sentence shows it."""
    return repr(value)[1:-1][:40]


@pytest.mark.slow
@pytest.mark.parametrize("path, option", OPTIONS, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_wrong_value_of_an_option_is_told_in_one_sentence(path, option, tmp_path):
    for value in HOSTILE:
        done = lazywafer(*path, f"{option}={value}", *required(path), cwd=tmp_path)
        if value in ALLOWED.get(option, ()):
            assert option not in done.stderr, done.stderr
            continue
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2, (value, line)
        assert option in line and shown(value) in line, line
        assert "takes" in line or "choose from" in line, line
        assert line.isprintable() and done.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("path, name", POSITIONALS, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_wrong_argument_is_told_in_a_sentence_and_a_hint(path, name, tmp_path):
    words = required(path)
    for value in (value for value in HOSTILE if value != "-1"):  # which would be an option
        # Any name may be given to a new folder.
        if (path, name) == (("stubs",), "folder") and value:
            continue
        actions = [a.dest for a in COMMANDS[path]._actions if not a.option_strings and a.nargs is None]
        given = [value if dest == name else word for dest, word in zip(actions, words, strict=False)] or [value]
        done = lazywafer(*path, *given, cwd=tmp_path)
        assert done.returncode == 2, (value, done.stdout, done.stderr)
        assert len(done.stderr.splitlines()) <= 2
        assert all(line.isprintable() for line in done.stderr.splitlines())
        told = shown(value) in done.stderr or "nowhere.py" in done.stderr
        assert told and "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_unknown_option_is_told_in_one_sentence(path, tmp_path):
    done = lazywafer(*path, "--no-such", *required(path), cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and "--help" in line


def test_unknown_command_is_told_in_one_sentence(tmp_path):
    (line,) = lazywafer("trian", "script.py", cwd=tmp_path).stderr.splitlines()
    assert "'trian'" in line and "run" in line and "check" in line


@pytest.mark.parametrize("words", [["-m", ""], ["-m", ","], ["-m", ".x"], ["-m", "a..b"], ["-m", "\udcff"]], ids=repr)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_wrong_name_of_a_module_is_told_in_one_sentence(command, words, tmp_path):
    done = lazywafer(command, *words, cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and "does not exist" in line and line.isprintable()
