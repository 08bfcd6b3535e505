"""A short campaign, and that the campaign itself sees what it looks for."""

import json
import os
import pathlib
import signal
import time

import pytest

from cstorch_compat.files import trial_process
from tests.campaign.__main__ import BAD, run, table
from tests.campaign.cases import Ground, _in_child, _read
from tests.campaign.corpora import Corpus

pytestmark = pytest.mark.process
CASES = 30


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> Ground:
    return Ground.prepared(tmp_path_factory.mktemp("campaign"))


def test_no_damaged_file_crashes_hangs_runs_code_or_raises_an_error_of_others(ground, tmp_path):
    counts, bad = run(ground, 1, CASES, tmp_path / "1.json")
    assert not bad
    assert sum(counts.values()) == CASES and "| h5 |" in table(counts)


def test_a_campaign_goes_on_where_it_was_stopped_with_any_number_of_cases_at_a_time(ground, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.campaign.__main__.CHUNK", 2)
    run(ground, 2, 5, tmp_path / "2.json")
    assert json.loads((tmp_path / "2.json").read_text())["done"] == [0, 2]
    ahead = run(ground, 2, 8, tmp_path / "2.json", jobs=2)
    assert ahead == run(ground, 2, 8, tmp_path / "whole.json")


def crashes(path: pathlib.Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # without the dump that a fault would print here


def hangs(path: pathlib.Path) -> None:
    time.sleep(60)


def spins(path: pathlib.Path) -> None:
    # In a process that it waits for: its seconds count too.
    trial_process.read_in_trial_process(spin, str(path))


def spin(beat: trial_process.Heartbeat) -> None:
    while True:
        beat()


def writes(path: pathlib.Path) -> None:
    path.with_name("written").write_text("")


def raises(path: pathlib.Path) -> None:
    raise OverflowError("of others")


@pytest.mark.parametrize(
    "reader, outcome, limit",
    [
        (crashes, "crash", ""),
        (hangs, "hang", "SECONDS"),
        (spins, "hang", "PROCESSOR_SECONDS"),
        (writes, "code run", ""),
        (raises, "foreign exception", ""),
    ],
)
def test_what_may_not_be_is_seen(reader, outcome, limit, tmp_path, monkeypatch):
    if limit:
        monkeypatch.setattr(f"tests.campaign.cases.{limit}", 0.3)
    corpus = Corpus("one", lambda path: None, (reader,))
    assert _in_child(lambda: _read(corpus, 0, tmp_path / "case", ""))[0] == outcome
    assert outcome in BAD
