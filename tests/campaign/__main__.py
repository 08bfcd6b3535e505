"""`python -m tests.campaign --cases N --seed S`: runs the cases that are left of a campaign, and prints its table.

`python -m tests.campaign calls N SEED`: bad calls of operations.
`python -m tests.campaign csx N SEED --real PYTHON`: drawn modules beside the real front end.
`python -m tests.campaign meshes N SEED`: plans on a mesh and on a larger one, which may be at most 5 % slower.
`python -m tests.campaign loops N SEED [--real PYTHON]`: drawn training loops on both backends, beside the real package.
`python -m tests.campaign programs N SEED [--real PYTHON]`: drawn PyTorch programs, repeated and beside PyTorch.
"""

import argparse
import collections
import contextlib
import dataclasses
import functools
import gc
import importlib
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
from typing import Any

import cstorch_compat
from tests.campaign import csx, larger_meshes
from tests.campaign.bad_calls import campaign
from tests.campaign.cases import OUTCOMES, Ground
from tests.campaign.corpora import CORPORA
from tests.campaign.loops import campaign as loops
from tests.campaign.programs import campaign as programs

BAD = ("foreign exception", "crash", "hang", "memory", "code run")
CHUNK = 50
"""Cases after which it is noted how far a campaign is."""


SUBJECTS = {
    "calls": "bad calls of operations, not files",
    "meshes": "plans on a mesh and on a larger one",
    "csx": "drawn modules beside the real front end",
    "loops": "drawn training loops on both backends, beside the real package",
    "programs": "drawn PyTorch programs, repeated and beside PyTorch",
}
"""What is drawn other than files, and the help of the subcommand."""
ORACLES = {"csx": "cerebras_pytorch 2.10.0", "loops": "cerebras_pytorch 2.10.0", "programs": "torch 2.13.0"}
"""The package that an interpreter given by --real has."""


def main() -> int:
    """The command line. Returns 1 if a case came out as none may."""
    options = _parser().parse_args()
    subject = options.subject
    if subject is None:
        return damage_files(options)
    if subject == "calls":
        return refuse_calls(options.own_seed, options.count)
    if subject == "meshes":
        return plan_on_larger(options.own_seed, options.count, options.jobs)
    if subject == "csx":
        return csx.campaign(options.count, options.own_seed, options.real, options.shrink, options.first, options.calls)
    run_drawn = {"loops": loops.run, "programs": programs.run}[subject]
    return run_drawn(
        options.own_seed, range(options.first, options.first + options.count), options.real, options.shrink
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=None, help="run this case alone, and say what came of it")
    parser.add_argument("--folder", default="build/campaign", help="where a campaign is gone on with")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    subparsers = parser.add_subparsers(dest="subject")
    for name, what in SUBJECTS.items():
        subject = subparsers.add_parser(name, help=what)
        subject.add_argument("count", type=int, metavar="N")
        subject.add_argument("own_seed", type=int, metavar="SEED")
        if name in ORACLES:
            subject.add_argument("--real", metavar="PYTHON", help=f"an interpreter with {ORACLES[name]}")
            subject.add_argument("--first", type=int, default=0, help="the number of the first case")
            subject.add_argument("--shrink", action="store_true", help="print the smallest case with a difference")
        if name == "csx":
            subject.add_argument("--calls", default="", help="one call a script, of those that match this expression")
    return parser


def damage_files(options: argparse.Namespace) -> int:
    """Run the damaged and hostile files that are left of a campaign. Returns 1 if one came out as none may."""
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground.prepared(pathlib.Path(folder))
        if options.only is not None:
            print(*ground.outcome(options.seed, options.only), sep="\n")
            return 0
        # What is there already is looked at by no child's collector, which would copy all of it.
        gc.freeze()
        notes = pathlib.Path(options.folder) / f"{options.seed}.json"
        counts, bad = run(ground, options.seed, options.cases, notes, options.jobs)
    print(table(counts))
    for case, name, outcome, seen in bad:
        print(f"case {case}: {name}: {outcome}: {seen}")
    return 1 if bad else 0


def refuse_calls(seed: int, cases: int) -> int:
    """Make bad calls, and print what came of them. Returns 1 if one came out as none may."""
    cstorch_compat.install()
    counts, bad = campaign(importlib.import_module("torch"), seed, range(cases))
    print(f"{cases} bad calls, seed {seed}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    print(*bad, f"{len(bad)} came out as none may", sep="\n")
    return 1 if bad else 0


def plan_on_larger(seed: int, pairs: int, jobs: int) -> int:
    """Plan steps on pairs of meshes, and print which are slower on the larger one. Returns 1 if one breaks the rule."""
    seen = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for found in pool.imap_unordered(functools.partial(larger_meshes.outcomes, seed), range(pairs)):
            seen += found
            for one in found:
                if one.ratio > 1:
                    print(f"pair {one.pair}: {one.mode}, {one.text}: {one.ratio:.4f} times as long", flush=True)
    print(larger_meshes.table(seen))
    return 1 if any(one.is_too_slow for one in seen) else 0


def run(ground: Ground, seed: int, cases: int, notes: pathlib.Path, jobs: int = 1) -> tuple[dict[str, int], list[Any]]:
    """How often each outcome of each format came, and the cases that may not be; goes on where it was stopped."""
    done, counts, bad = set[int](), collections.Counter[str](), list[list[object]]()
    if notes.exists():
        said = json.loads(notes.read_text())
        done, counts, bad = set(said["done"]), collections.Counter(said["counts"]), said["bad"]
    # Chunks, and not how far it is: several are under way at a time.
    chunks = [k for k in range(0, cases, CHUNK) if k not in done]
    work = functools.partial(_chunk, ground, seed, cases)
    with multiprocessing.get_context("fork").Pool(jobs) if jobs > 1 and chunks else contextlib.nullcontext() as pool:
        for first, outcomes in pool.imap_unordered(work, chunks) if pool else map(work, chunks):
            for case, name, outcome, seen in outcomes:
                counts[f"{name}/{outcome}"] += 1
                if outcome in BAD:
                    bad.append([case, name, outcome, seen])
                    print(f"case {case}: {name}: {outcome}: {seen}", file=sys.stderr, flush=True)
            # One that is not whole is run again by a longer campaign.
            if first + CHUNK <= cases:
                done.add(first)
                _note(notes, {"done": sorted(done), "counts": counts, "bad": bad})
    return counts, sorted(bad)


def _chunk(ground: Ground, seed: int, cases: int, first: int) -> tuple[int, list[tuple[int, str, str, str]]]:
    """The outcomes of some cases, in a folder of their own."""
    with tempfile.TemporaryDirectory(dir=ground.folder) as folder:
        apart = dataclasses.replace(ground, folder=pathlib.Path(folder))
        return first, [(case, *apart.outcome(seed, case)) for case in range(first, min(first + CHUNK, cases))]


def _note(notes: pathlib.Path, said: object) -> None:
    notes.parent.mkdir(parents=True, exist_ok=True)
    temporary = notes.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(said))
    temporary.replace(notes)


def table(counts: dict[str, int]) -> str:
    """The outcomes by format, as Markdown."""
    lines = ["| format | " + " | ".join(OUTCOMES) + " |", "|---" * (1 + len(OUTCOMES)) + "|"]
    rows = ([c.name, *(str(counts.get(f"{c.name}/{o}", 0)) for o in OUTCOMES)] for c in CORPORA)
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    sys.exit(main())
