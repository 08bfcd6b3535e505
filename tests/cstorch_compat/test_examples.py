"""`lazywafer example` writes a script to begin with, and options of ours may stand behind a script."""

import argparse

import pytest

from cstorch_compat.__main__ import main
from cstorch_compat.run import script
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_example_is_written_once_and_is_that_of_the_notebooks(tmp_path, capsys):
    assert main(["example", "mnist"]) == 0
    assert (tmp_path / "mnist.py").read_bytes() == (ROOT / "notebooks" / "scripts" / "mnist.py").read_bytes()
    assert "lazywafer run --html mnist.html mnist.py" in capsys.readouterr().out
    (tmp_path / "mnist.py").write_text("mine")
    assert main(["example", "mnist"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "mnist.py").read_text() == "mine"


def test_examples_are_listed_with_what_they_do(capsys):
    assert main(["example"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == sorted(p.stem for p in (ROOT / "notebooks" / "scripts").glob("*.py"))
    assert all("Train a small" in line for line in listed)
    assert main(["example", "no_such"]) == 2
    assert "there are gpt, mnist" in capsys.readouterr().err


def read(arguments, text):
    options = argparse.Namespace(args=arguments, html=None, trace=None, report=None)
    script.read_behind(options, lambda: [text])
    return options


def test_output_options_behind_a_script_that_has_none_of_that_name_are_ours():
    options = read(["--epochs", "1", "--html", "r.html", "--report=r.txt", "more"], "parser.add_argument('--epochs')")
    assert (options.args, str(options.html), options.report) == (["--epochs", "1", "more"], "r.html", "r.txt")


@pytest.mark.parametrize("text", ["add_argument('--html')", "def main(html=None): ..."])
def test_output_options_of_the_script_itself_stay_with_it(text):
    options = read(["--html", "r.html"], text)
    assert (options.args, options.html) == (["--html", "r.html"], None)
