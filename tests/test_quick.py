"""A quick run leaves out what starts processes or needs machine code, and says so."""

from tests.conftest import ROOT, python

TESTS = """
import os, subprocess, sys
import numba, pytest
from hypothesis import given, settings, strategies as st

def test_plain():
    pass

def test_process():
    subprocess.run([sys.executable, "-c", ""])

def test_fork():
    os.fork()

def test_code():
    try:
        numba.njit(lambda x: x + 1)(2)
    except Exception:
        pass  # what skips a test is none

@pytest.mark.slow
def test_long():
    raise AssertionError

runs = []

@settings(max_examples=50)
@given(st.integers())
def test_law(number):
    runs.append(number)

def test_law_was_brief():
    assert 1 <= len(runs) < 10
"""


def test_quick_run_says_what_it_leaves_out(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    ran = python("-m", "pytest", "-c", "pyproject.toml", "-p", "tests.quick", "--quick", str(path), cwd=ROOT)
    assert "3 passed, 4 skipped" in ran.stdout
    assert "left out of the quick run: 2 starts a process, 1 needs machine code, 1 marked slow" in ran.stdout
