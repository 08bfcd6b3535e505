"""`lazywafer coverage`: list for every known name of the emulated packages whether it exists here."""

import argparse
import importlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cstorch_compat.names import manifest, shim, torch_surface
from lazytensor.display.table import Column, Table

STATUSES = ("full", "partial", "missing")
"""The possible states of a name."""


@dataclass(frozen=True)
class CoverageRow:
    """The status of one name: "full", "partial" or "missing". `reason` is "" for "full"."""

    name: str
    status: str
    reason: str = ""


def coverage_rows() -> Iterator[CoverageRow]:
    """Yield a row for every known name, sorted by name. Requires an installed shim.

    A name that can be imported but refuses every use counts as missing.
    """
    for name in sorted(manifest.known_names() | manifest.PARTIAL_REASONS.keys()):
        value = _resolve_name(name)
        if value is manifest.ABSENT:
            yield CoverageRow(name, "missing", manifest.find_missing_reason(name))
        # A name that refuses every use counts as missing.
        elif "refused" in getattr(value, "__dict__", ()):
            yield CoverageRow(name, "missing", value.refused[0])
        elif name in manifest.PARTIAL_REASONS:
            yield CoverageRow(name, "partial", manifest.PARTIAL_REASONS[name])
        else:
            yield CoverageRow(name, "full")


def _resolve_name(name: str) -> Any:
    """Return the value of a dotted name, or `manifest.ABSENT`. The longest importable prefix is the module.

    Modules are imported for this.
    """
    parts = name.split(".")
    # Try the longest module first: utils.call_once is a module and also a function in it.
    for n in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            value = getattr(value, part, manifest.ABSENT)
            if value is manifest.ABSENT:
                return manifest.ABSENT
        return value
    return manifest.ABSENT


def format_coverage(listed: bool) -> str:
    """Return the coverage as text: the shares of three lists of names, then counts by package.

    If `listed`, every partial and missing name follows with its reason. Packages with only missing names have no count.
    """
    names = list(coverage_rows())
    counts = Counter((_package(r.name), r.status) for r in names)
    columns = (Column("package", is_words=True), *map(Column, STATUSES))
    # Leave out the many modules of PyTorch with only missing names; --list has a line for each.
    packages = sorted({_package(r.name) for r in names if r.status != "missing"})
    lines = [
        _format_shares(names),
        "",
        Table(columns, [(p, *(counts[p, s] for s in STATUSES)) for p in packages]).text(),
    ]
    if listed:
        lines += ["", *(f"{r.status:8} {r.name}: {r.reason}" for r in names if r.status != "full")]
    return "\n".join(lines)


def _format_shares(names: list[CoverageRow]) -> str:
    """Return a table with the coverage of three lists of names, where partial names count as covered.

    The lists are PyTorch's public names, those that published scripts use, and the names of cerebras.pytorch.
    """
    lists = {
        f"public names of PyTorch {torch_surface.TORCH_RELEASE}": torch_surface.all_torch_names(),
        "names of PyTorch that published scripts use": {
            n for n in manifest.names_in_published_scripts() if n.startswith("torch")
        },
        "public names of cerebras.pytorch": {
            n for n in manifest.names_in_published_scripts() if n.startswith("cerebras")
        },
    }
    columns = (Column("list", is_words=True), Column("names"), *map(Column, STATUSES), Column("here", "{:.1%}".format))
    table = []
    for title, members in lists.items():
        counts = Counter(r.status for r in names if r.name in members)
        total = counts.total()
        table.append((title, total, *(counts[s] for s in STATUSES), 1 - counts["missing"] / max(total, 1)))
    return Table(columns, table).text()


def _package(name: str) -> str:
    """Return the module of a dotted name."""
    return name.rpartition(".")[0] or name


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `coverage` command to the subparsers `commands`."""
    covered = commands.add_parser("coverage", help="print which names of the emulated packages exist in lazywafer")
    covered.add_argument("--list", action="store_true", help="also print each partial or missing name with the reason")
    covered.add_argument("--json", action="store_true", help="print every name with its status and reason as JSON")
    covered.set_defaults(execute=lambda options: print_coverage(options.list, options.json))


def print_coverage(listed: bool = False, as_json: bool = False) -> int:
    """Print the coverage as text, or as JSON with all names. Installs the shim. Return 0."""
    shim.install()
    print(json.dumps([asdict(row) for row in coverage_rows()], indent=0) if as_json else format_coverage(listed))
    return 0
