"""A share of the faults that `python -m tests.faults` tries at every place."""

import pytest

from tests.faults.endings import Ground, campaign, left_of
from tests.faults.owned import SHARED, owner_name, pieces
from tests.faults.places import BATCHES, FAULTS, places, worker_death_at
from tests.faults.surroundings import expected, in_place

pytestmark = [pytest.mark.process, pytest.mark.slow]
SHARE = 6
LEAVING = """
import multiprocessing.resource_tracker, multiprocessing.shared_memory, os
piece = multiprocessing.shared_memory.SharedMemory(create=True, size=8)
multiprocessing.resource_tracker.unregister(piece._name, "shared_memory")
os._exit(0)
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """One script only: that of the wafer takes longer."""
    prepared = Ground(tmp_path_factory.mktemp("endings"), ("plain",))
    yield prepared
    prepared.close()


# Signals are for the command alone: where 900 of one seed were right, 2 of the next were not, and a test that draws a
# few of them would fail once in a long while. What they found is held by tests that need no luck.
def test_a_run_that_is_killed_at_any_moment_leaves_nothing_and_goes_on_to_the_same_bits(ground, tmp_path):
    assert campaign(ground, "kills", 2, 1, tmp_path / "notes.json")[1] == []


@pytest.mark.parametrize("is_cold", [False, True])
def test_memory_that_a_run_leaves_is_told_and_that_of_another_is_not(ground, is_cold):
    folder, session = ground.empty("plain"), []
    (folder / "train.py").write_text(LEAVING)
    other = SHARED / owner_name()
    # As if another run had left it: no process uses it.
    other.touch()
    assert ground.run(folder, session.append, is_cold) == 0
    *_, piece = pieces(ground.name)
    try:
        assert left_of(*session, ground.name, set()) == [f"{SHARED / piece}"]
    finally:
        (SHARED / piece).unlink()
        other.unlink()


@pytest.mark.parametrize("fault", FAULTS)
def test_saves_survive_a_fault_at_any_place(fault, tmp_path):
    count = places(tmp_path)
    (tmp_path / "count.mdl").unlink()
    for place in sorted({1, count, *range(1, count, max(1, count // SHARE))}):
        assert fault(place, tmp_path) == [], place


@pytest.mark.parametrize("place", [0, BATCHES - 1])
def test_death_of_a_worker_is_told(place, tmp_path):
    assert worker_death_at(place, tmp_path) == []


def test_a_script_runs_where_nothing_takes_files_but_its_folder_or_the_folder_has_no_text_for_a_name(tmp_path):
    (tmp_path / "ever").mkdir()
    loss = expected(tmp_path / "ever")
    for name in ("nothing takes files but the script's folder", "folder of bytes that are no text"):
        folder = tmp_path / name[:6]
        folder.mkdir()
        assert in_place(name, folder, loss) == [], name
