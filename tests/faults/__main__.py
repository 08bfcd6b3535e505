"""`python -m tests.faults`: every fault at every place of a small run, and a run in every odd place; says how many."""

import os
import pathlib
import sys
import tempfile

from tests.faults.places import BATCHES, FAULTS, places, worker_death_at
from tests.faults.surroundings import PLACES, can_be_tried, expected, in_place


def main() -> None:
    """Run all of them; the first that leaves something wrong is an error."""
    with tempfile.TemporaryDirectory() as folder:
        count = places(pathlib.Path(folder))
    for fault, ways in (*((f, range(1, count + 1)) for f in FAULTS), (worker_death_at, range(BATCHES))):
        for place in ways:
            with tempfile.TemporaryDirectory() as folder:
                if wrong := fault(place, pathlib.Path(folder)):
                    sys.exit(f"{fault.__name__} at place {place}: {'; '.join(wrong)}")
        print(f"{fault.__name__}: {len(ways)} of {len(ways)} places")
    odd_places()


def odd_places() -> None:
    """A small training run wherever a script may be started."""
    with tempfile.TemporaryDirectory() as folder:
        loss = expected(pathlib.Path(folder))
    tried = [name for name in PLACES if can_be_tried(name)]
    for name in tried:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            if wrong := in_place(name, pathlib.Path(folder), loss):
                sys.exit(f"{name}: {'; '.join(wrong)}")
    left_out = ", ".join(name for name in PLACES if name not in tried)
    print(f"in_place: {len(tried)} of {len(PLACES)} surroundings" + (f"; not here: {left_out}" if left_out else ""))


if __name__ == "__main__":
    main()
