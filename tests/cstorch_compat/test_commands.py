"""Manners of the command line: versions, modules, standard input, and readers that stop reading."""

import io
import json
import subprocess
import sys

import cstorch_compat
from cstorch_compat.run import script as scripts
from tests.conftest import ROOT, lazywafer

SAYS = "import sys\nprint(__name__, sys.argv[1:], file=sys.stdout)\n"


def test_version_is_that_of_the_package(tmp_path):
    assert lazywafer("--version", cwd=tmp_path).stdout.split() == ["lazywafer", cstorch_compat.__version__]


def test_info_as_json_has_what_the_text_has(tmp_path):
    facts = json.loads(lazywafer("info", "--json", cwd=tmp_path).stdout)
    lines = lazywafer("info", cwd=tmp_path).stdout.splitlines()
    assert [line.split(maxsplit=1)[0] for line in lines] == [name.split()[0] for name in facts]
    assert facts["lazywafer"] == cstorch_compat.__version__


def test_a_module_is_run_by_its_name(tmp_path):
    (tmp_path / "models_of_mine").mkdir()
    (tmp_path / "models_of_mine" / "__init__.py").write_text("")
    (tmp_path / "models_of_mine" / "train.py").write_text(SAYS)
    done = lazywafer("run", "-m", "models_of_mine.train", "--epochs", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "__main__ ['--epochs', '3']\n"), done.stderr
    done = lazywafer("run", "-m", "models_of_mine.test", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "lazywafer: there is no module models_of_mine.test\n")


def test_a_script_comes_from_standard_input(tmp_path, monkeypatch):
    scripts._standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", io.StringIO(SAYS + "raise SystemExit(3)\n"))
    done = lazywafer("run", "-", "a", cwd=tmp_path)
    scripts._standard_input.cache_clear()
    assert (done.returncode, done.stdout) == (3, "__main__ ['a']\n"), done.stderr


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
