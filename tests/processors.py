"""What processes have computed by now, as Linux counts it: on a busy machine the clock says little about them."""

import os
import pathlib

TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process has computed; nothing if it is gone."""
    return _ticks(pid, 2) / TICK


def family_seconds(pid: int) -> float:
    """What a process and all that it has started have computed, those that have ended included."""
    # Of a process that is gone its parent has the sum.
    ticks, families = _ticks(pid, 4), pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return ticks / TICK + sum(family_seconds(int(child)) for family in families for child in _words(family))


def _ticks(pid: int, fields: int) -> int:
    return sum(map(int, _words(pathlib.Path(f"/proc/{pid}/stat"), ")")[11 : 11 + fields]))


def _words(path: pathlib.Path, behind: str = "") -> list[str]:
    try:
        text = path.read_text()
    except OSError:
        return []
    return (text.rpartition(behind)[2] if behind else text).split()
