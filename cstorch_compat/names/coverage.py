"""`lazywafer coverage`: for every known name of the emulated packages, whether it is here."""

import importlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cstorch_compat.names import manifest, shim
from lazytensor.table import Column, Table


@dataclass(frozen=True)
class CoverageRow:
    """One name: "full", "partial" or "missing", with the reason unless it is full."""

    name: str
    status: str
    reason: str = ""


def rows() -> Iterator[CoverageRow]:
    """A row for every known name, in order. Needs the shim to be installed."""
    for name in sorted(manifest.known_names() | manifest.PARTIAL.keys()):
        if _value(name) is manifest.ABSENT:
            yield CoverageRow(name, "missing", manifest.reason_for(name))
        elif name in manifest.PARTIAL:
            yield CoverageRow(name, "partial", manifest.PARTIAL[name])
        else:
            yield CoverageRow(name, "full")


def _value(name: str) -> Any:
    """What a dotted name stands for, through modules and then attributes."""
    parts = name.split(".")
    # The longest part that can be imported is the module: utils.call_once is one, and also a function in it.
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


def text(listed: bool) -> str:
    """Counts by package, then, if `listed`, every name that is partial or missing with its reason."""
    names = list(rows())
    counts = Counter((_package(r.name), r.status) for r in names)
    statuses = ("full", "partial", "missing")
    columns = (Column("package", is_words=True), *map(Column, statuses))
    packages = sorted({_package(r.name) for r in names})
    lines = [Table(columns, [(p, *(counts[p, s] for s in statuses)) for p in packages]).text()]
    if listed:
        lines += ["", *(f"{r.status:8} {r.name}: {r.reason}" for r in names if r.status != "full")]
    return "\n".join(lines)


def _package(name: str) -> str:
    return name.rpartition(".")[0]


def report(listed: bool) -> int:
    """Print the coverage. Returns the exit status."""
    shim.install()
    print(text(listed))
    return 0
