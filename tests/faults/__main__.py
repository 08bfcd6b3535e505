"""`python -m tests.faults`: every fault at every place of a small run, and a run in every odd place; says how many.

`python -m tests.faults kills N [SEED]`: runs killed at random moments, and started again. `signals N [SEED]`: runs that
each of three signals ends, N times each. `cache N [SEED]`: runs behind a turned bit of the kept machine code.
"""

import argparse
import os
import pathlib
import sys
import tempfile

from tests.faults import cache_flips
from tests.faults.endings import Ground, campaign
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


def endings(kind: str, count: int, seed: int, notes: pathlib.Path) -> int:
    """Kill or signal runs; goes on where it was stopped. Returns 1 if something was wrong behind one."""
    with tempfile.TemporaryDirectory() as folder:
        where, flips = pathlib.Path(folder), kind == "cache"
        ground = cache_flips.ground_of(where) if flips else Ground(where, cache=where / "cache")
        case = cache_flips.flipped if flips else None
        counts, bad = campaign(ground, kind, count, seed, notes / f"{kind}-{seed}.json", case)
        ground.close()
    print(f"{kind}, seed {seed}: {len(bad)} with something wrong")
    for end, number in sorted(counts.items()):
        print(f"  {number:5} {end}")
    return 1 if bad else 0


def asked() -> int:
    """The command line. Returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="tests.faults", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=("kills", "signals", "cache"))
    parser.add_argument("count", nargs="?", type=int, default=50, metavar="N")
    parser.add_argument("seed", nargs="?", type=int, default=1, metavar="SEED")
    parser.add_argument("--notes", type=pathlib.Path, default=pathlib.Path("build/faults"), help="what is gone on with")
    options = parser.parse_args()
    if options.kind is not None:
        return endings(options.kind, options.count, options.seed, options.notes)
    main()
    return 0


if __name__ == "__main__":
    sys.exit(asked())
