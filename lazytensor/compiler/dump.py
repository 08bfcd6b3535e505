"""Print the results of compiler passes, or write them to files, as LT_DEBUG and LT_DUMP request."""

import pathlib
import sys
from collections.abc import Callable, Iterable

from lazytensor import config
from lazytensor.compiler.codegen import generate
from lazytensor.compiler.kernel_calls import KernelCall
from lazytensor.compiler.match import Matches
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.program import Program

GRAPHS, REWRITES, NESTS, PLACEMENT = 1, 2, 3, 4
"""Levels of LT_DEBUG: at each level, everything of the lower levels is printed too."""


def is_shown(level: int) -> bool:
    """Return whether output of this level of LT_DEBUG is printed, or written because LT_DUMP is set."""
    switches = config.current()
    return switches.debug >= level or bool(switches.dump)


def show(level: int, name: str, text: Callable[[], str]) -> None:
    """Print `text()` to stderr if LT_DEBUG is at least `level`, and write it to a new file in LT_DUMP if that is set.

    The file is named `NNN_name.txt`. `text` is called only if its result is needed.
    """
    if not is_shown(level):
        return
    # The text is made only if it is needed: that of a large model has thousands of lines.
    switches, words = config.current(), text()
    if switches.debug >= level:
        print(f"--- {name}\n{words}", file=sys.stderr)
    if switches.dump:
        folder = pathlib.Path(switches.dump)
        folder.mkdir(parents=True, exist_ok=True)
        # Numbered by the files in the folder: a process compiles many graphs, and processes may share the folder.
        number = len(list(folder.iterdir()))
        (folder / f"{number:03d}_{name}.txt").write_text(words + "\n", encoding="utf-8", errors="replace")


def graph_text(graph: Graph) -> str:
    """Return the text of a graph: a line for each node, for each updated state, and for the results.

    The elements of constants are left out.
    """
    names = _names(graph.nodes())
    lines = []
    for n, name in names.items():
        attrs = [f"{k}={v}" for k, v in n.attrs.items() if k != "data"]
        lines.append(f"{name} = {n.op}({', '.join([*(names[i] for i in n.inputs), *attrs])}) : {n.type}")
    lines += [f"{state} <- {names[n]}" for state, n in graph.updates.items()]
    return "\n".join([*lines, "return " + ", ".join(names[o] for o in graph.outputs)])


def _names(nodes: Iterable[Node]) -> dict[Node, str]:
    return {n: f"%{k}" for k, n in enumerate(nodes)}


def matches_text(matches: Matches) -> str:
    """Return a line for each node that a library kernel computes."""
    return "\n".join(
        f"{n.op} : {n.type} by {kernel.name}({', '.join(str(i.type) for i in match.operands)})"
        for n, (kernel, match) in matches.items()
    )


def calls_text(calls: Iterable[KernelCall]) -> str:
    """Return a line for each call. A nest is followed by its loops and its generated source."""
    parts = []
    for c in calls:
        parts.append(f"{c.kernel} gives {', '.join(n.op for n, _ in c.results)}{f' at {c.where}' if c.where else ''}")
        if c.nest is not None:
            parts += [str(c.nest), generate(c.nest)]
    return "\n".join(parts)


def program_text(program: Program) -> str:
    """Return the text of a program: a line for each buffer, then one for each instruction in order."""
    lines = [f"{b.index}: {b.kind} {b.name}{' ' if b.name else ''}{b.type}" for b in program.buffers]
    lines += [f"{i.label}: {list(i.reads)} -> {list(i.writes)}  [{i.direction}]" for i in program.instrs]
    return "\n".join(lines)
