"""CIRH of small modules: the lines that the vendor's front end printed of each."""

import json

import pytest

from tests.golden.record_cirh_modules import GOLDENS, lines, text

CASES = {case: lines for golden in GOLDENS for case, lines in json.loads(golden.read_text()).items()}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_module_lowers_to_the_recorded_lines(case, script, tmp_path):
    done = script(text(case), preamble="")
    assert done.returncode == 0, done.stderr
    assert lines(tmp_path) == CASES[case]
