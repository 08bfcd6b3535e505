"""`cstorch_compat.check`: a check from a notebook, in a process of its own."""

import pytest

import cstorch_compat
from cstorch_compat.check.in_process import CheckReport
from cstorch_compat.check.report import SCHEMA_VERSION
from lazytensor.errors import LazyError


def test_script_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(LazyError, match=r"no\.py does not exist"):
        cstorch_compat.check(tmp_path / "no.py")


def test_report_is_a_table_in_a_notebook_and_escapes_the_script():
    finding = {
        "severity": "refused",
        "id": "LW101",
        "line": 3,
        "source_line": "if a < b:",
        "title": "t",
        "way_out": "w",
    }
    report = CheckReport(
        "text", {"status": 1, "script": "s.py", "verdict": "1 < 2", "findings": [finding], "missing_names": []}
    )
    shown = report._repr_html_()
    assert "<code>if a &lt; b:</code>" in shown
    assert "<b>1 &lt; 2</b>" in shown
    assert (str(report), repr(report), report.status) == ("text", "<check of s.py: 1 < 2>", 1)


@pytest.mark.slow
@pytest.mark.process
def test_check_in_a_notebook_says_what_the_command_says(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import torch\n\nprint(torch.no_such_name)\n")
    report = cstorch_compat.check(path)
    assert (report.status, [(f["id"], f["line"]) for f in report.findings]) == (2, [("LW412", 3)])
    assert "no_such_name" in report.text
    assert report.details["schema"] == SCHEMA_VERSION
