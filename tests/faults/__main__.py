"""`python -m tests.faults`: every fault at every place of a small run; says how many there were."""

import pathlib
import sys
import tempfile

from tests.faults.places import BATCHES, FAULTS, places, worker_death_at


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


if __name__ == "__main__":
    main()
