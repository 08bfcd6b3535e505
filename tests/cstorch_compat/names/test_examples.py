"""`lazywafer example` writes a script to begin with, and options of ours may stand behind a script."""

import argparse
import re

import pytest

from cstorch_compat.__main__ import main
from cstorch_compat.run import script
from tests.conftest import ROOT, python


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_example_is_written_once_and_is_that_of_the_notebooks(tmp_path, capsys):
    assert main(["example", "mnist"]) == 0
    assert (tmp_path / "mnist.py").read_bytes() == (ROOT / "notebooks" / "scripts" / "mnist.py").read_bytes()
    assert "lazywafer run --html mnist.html mnist.py" in capsys.readouterr().out
    (tmp_path / "mnist.py").write_text("mine")
    assert main(["example", "mnist"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mnist.py").read_text() == "mine"


@pytest.mark.process
def test_first_commands_of_the_readme_print_no_warning(tmp_path):
    (block,) = (ROOT / "README.md").read_text().partition("## Run a script of yours\n\n")[2].split("\n\n")[:1]
    commands = [line.partition("#")[0].split()[1:] for line in block.splitlines()[:2]]
    assert [words[0] for words in commands] == ["example", "run"]
    for words in commands:
        # Warnings are errors in this process.
        done = python("-m", "cstorch_compat", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if not re.match(r"step \d+/\d+, ", line)] == []
    # The table that the README shows is the one that the last command printed.
    table = (ROOT / "README.md").read_text().partition("    Step 1 of 2 ")[2].partition("\nand ")[0]
    lines = [line.strip() for line in f"Step 1 of 2 {table}".splitlines() if line.strip()]
    assert len(lines) == 4
    assert [line for line in lines if line not in done.stdout] == []
    # PyTorch's own torchvision finds the same digits there: it looks for these files before it downloads.
    files = {path.name for path in (tmp_path / "digits" / "MNIST" / "raw").iterdir()}
    assert files == {f"{p}-{k}-ubyte" for p in ("train", "t10k") for k in ("images-idx3", "labels-idx1")} | {
        "README.txt"
    }


def test_data_of_an_example_replace_none(tmp_path, capsys):
    (tmp_path / "digits" / "MNIST" / "raw").mkdir(parents=True)
    assert main(["example", "mnist"]) == 0
    assert list((tmp_path / "digits").rglob("*.*")) == []
    assert "UCI" not in capsys.readouterr().out


def test_examples_are_listed_with_what_they_do(capsys):
    assert main(["example"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == sorted(p.stem for p in (ROOT / "notebooks" / "scripts").glob("*.py"))
    assert all("Train a small" in line for line in listed)
    assert main(["example", "no_such"]) == 2
    assert "use one of gpt, mnist" in capsys.readouterr().err


def read(arguments, text):
    options = argparse.Namespace(args=arguments, html=None, trace=None, report=None)
    script.parse_trailing_options(options, lambda: [text])
    return options


def test_output_options_behind_a_script_that_has_none_of_that_name_are_ours():
    options = read(["--epochs", "1", "--html", "r.html", "--report=r.txt", "more"], "parser.add_argument('--epochs')")
    assert (options.args, str(options.html), str(options.report)) == (["--epochs", "1", "more"], "r.html", "r.txt")


@pytest.mark.parametrize("text", ["add_argument('--html')", "def main(html=None): ..."])
def test_output_options_of_the_script_itself_stay_with_it(text):
    options = read(["--html", "r.html"], text)
    assert (options.args, options.html) == (["--html", "r.html"], None)
