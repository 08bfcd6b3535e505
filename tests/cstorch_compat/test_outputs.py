"""What commands write: whole files, texts that every reader and terminal takes, and an end without a word on a pipe."""

import json
import os
import pathlib
import shlex
import stat
import subprocess
import sys

import numpy as np
import pytest

from cstorch_compat.html_report import write_report
from lazytensor.system.output_files import json_text, write_file_atomically
from tests.conftest import PREAMBLE, ROOT, lazywafer, training

PLAIN = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
"""
SCRIPTS = {"plain": PLAIN, "wafer": PREAMBLE + training()}
NAMES = ["caf\udce9.py", "red\x1b[31m.py", "line\nbreak.py", "\u202eyp.py", "\N{PILE OF POO}.py"]
OUTPUTS = ("--html", "page.html", "--report", "report.json", "--trace", "trace.json")


def is_plain(text: str) -> bool:
    """Whether a terminal obeys nothing of a text."""
    return all(line.isprintable() for line in text.replace("\t", " ").split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_of_a_script_is_in_every_output(name, kind, tmp_path):
    (tmp_path / name).write_text(SCRIPTS[kind])
    done = lazywafer("run", "--machine", "tiny", *OUTPUTS, name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert is_plain(done.stdout) and "verdict" in done.stdout
    page, report, trace = ((tmp_path / file).read_bytes().decode() for file in OUTPUTS[1::2])
    assert json.loads(report)[0]["machine"] == "tiny" and json.loads(trace)["traceEvents"]
    assert all(text.encode() for text in (page, str(json.loads(report)), str(json.loads(trace))))
    text = lazywafer("run", "--machine", "tiny", "--report", "report.txt", name, cwd=tmp_path)
    assert text.returncode == 0 and is_plain((tmp_path / "report.txt").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("command", [("check",), ("check", "--json"), ("plan",), ("plan", "--json")], ids=" ".join)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_of_a_script_is_planned_and_checked(name, command, tmp_path):
    (tmp_path / name).write_text(PLAIN)
    done = lazywafer(*command, name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert is_plain(done.stdout)
    if "--json" in command:
        assert str(json.loads(done.stdout)).encode()


@pytest.mark.parametrize("command", ["run", "check", "plan"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_of_a_script_is_plain_in_errors(name, command, tmp_path):
    (tmp_path / name).write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    done = lazywafer(command, name, cwd=tmp_path)
    assert done.returncode in (1, 2) and is_plain(done.stdout + done.stderr)
    assert "ShapeError" in done.stdout + done.stderr or ":2: " in done.stderr


MODULES = (
    PREAMBLE
    + """
import warnings
warnings.simplefilter("always")
warnings.warn("of the script")
backend = cstorch.backend("CSX")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"red\x1b[31m": nn.Linear(6, 8), "\udce9": nn.Linear(8, 3)})
    def forward(self, x):
        for part in self.parts.values():
            x = part(x)
        return x
with backend.device:
    model = Net()
compiled = cstorch.compile(model, backend)
@cstorch.trace
def step(batch):
    return F.cross_entropy(compiled(batch[0]), batch[1].long())
@cstorch.step_closure
def log(loss):
    print(loss.item())
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=2):
    log(step(batch))
"""
)


@pytest.mark.parametrize(
    "command", [("run", *OUTPUTS), ("check",), ("plan",), ("plan", "--html", "page.html")], ids=" ".join
)
def test_any_name_of_a_module_is_plain_in_every_output(command, tmp_path):
    name = "red\x1b[31m.py"
    (tmp_path / name).write_text(MODULES.replace("\udce9", "\\udce9"), encoding="utf-8")
    done = lazywafer(
        *command[:1], *(() if command[0] == "check" else ("--machine", "tiny")), *command[1:], name, cwd=tmp_path
    )
    assert done.returncode == 0 and ("of the script" in done.stderr) == (command[0] == "run"), done.stderr
    assert is_plain(done.stdout + done.stderr)


def process(command: str, folder: pathlib.Path, **environment: str) -> subprocess.CompletedProcess:
    """Run a line of a shell; `lazywafer` in it is that of the checkout."""
    line = f'lazywafer() {{ {shlex.quote(sys.executable)} -m cstorch_compat "$@"; }}; set -o pipefail; {command}'
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.process
def test_a_report_is_printed_where_stdout_has_few_letters(tmp_path):
    (tmp_path / "été.py").write_text(PLAIN)
    done = process(
        "lazywafer run --verbose --machine tiny --html page.html --report report.txt été.py",
        tmp_path,
        PYTHONIOENCODING="ascii",
    )
    assert done.returncode == 0, done.stderr
    assert "\\xe9t\\xe9.py" in done.stdout and "été.py" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_keeps_the_old_one_and_the_other_files(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text(PLAIN)
    (tmp_path / "page.html").write_text("the page of before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(write_report, "write_file_atomically", full)
        done = lazywafer("run", "--machine", "tiny", *OUTPUTS, "script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "--html cannot be written to page.html: No space left on device" in done.stderr
    assert (tmp_path / "page.html").read_text() == "the page of before"
    assert json.loads((tmp_path / "report.json").read_text()) and json.loads((tmp_path / "trace.json").read_text())
    assert "verdict" in done.stdout


def test_a_run_without_a_step_on_the_wafer_still_writes_its_trace(tmp_path):
    (tmp_path / "script.py").write_text("print(1)\n")
    done = lazywafer("run", *OUTPUTS, "script.py", cwd=tmp_path)
    assert done.returncode == 1 and "no step can be reported" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script.py", "trace.json"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    old, link = tmp_path / "old.txt", tmp_path / "link.txt"
    old.write_text("old")
    old.chmod(0o640)
    link.symlink_to("old.txt")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            write_file_atomically(link, "new")
    assert old.read_text() == "old" and len(list(tmp_path.iterdir())) == 2
    write_file_atomically(link, "new \udce9")
    assert link.is_symlink() and old.read_text() == "new \\udce9" and stat.S_IMODE(old.stat().st_mode) == 0o640
    longest = tmp_path / ("n" * 250 + ".txt")
    write_file_atomically(longest, b"\0")
    assert longest.read_bytes() == b"\0"


def test_json_of_any_names_is_read_by_strict_readers():
    value = {"caf\udce9": ["\x1b", "\udcff", {"été": ("\N{PILE OF POO}", 1.5, None)}]}
    text = json_text(value)
    assert text.isascii() and json.dumps(json.loads(text), ensure_ascii=False).encode()
    assert json.loads(text) == {"caf\\udce9": ["\x1b", "\\udcff", {"été": ["\N{PILE OF POO}", 1.5, None]}]}


PIPES = [
    "ckpt ls state.npz",
    "ckpt show state.npz a.1",
    "ckpt diff state.npz other.npz",
    "--help",
    "plan --help",
    "example",
]


@pytest.mark.process
@pytest.mark.parametrize("command", PIPES)
def test_a_pipe_whose_reader_has_enough_ends_a_command_without_a_word(command, tmp_path):
    for name in ("state", "other"):
        np.savez(tmp_path / f"{name}.npz", **{f"a.{i}": np.full(3, i) for i in range(2000)}, **{name: np.ones(2)})
    done = process(f"lazywafer {command} | true", tmp_path)
    assert done.stderr == ""
    assert done.returncode in (0, 1, 141)


@pytest.mark.process
def test_plan_into_a_closed_pipe_ends_without_a_word(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    done = process("lazywafer plan --machine tiny --mode all --batch 8,16 script.py | true", tmp_path)
    assert done.stderr == ""


@pytest.mark.process
def test_run_prints_a_short_report_and_all_of_it_when_asked(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPTS["wafer"])
    short = lazywafer("run", "--report", "report.json", "script.py", cwd=tmp_path).stdout
    whole = lazywafer("run", "--report", "report.json", "--verbose", "script.py", cwd=tmp_path).stdout
    assert "verdict: Limited by" in short
    assert "Error band:" in short
    assert "lazywafer run --verbose" in short
    assert len(short.splitlines()) < 25 < len(whole.splitlines())
    assert "(chosen): step" in whole
    assert "at most" in whole
