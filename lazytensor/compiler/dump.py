"""Show: the results of passes as text, printed or written to files where LT_DEBUG or LT_DUMP ask for it."""

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
"""The levels of LT_DEBUG."""


def is_shown(level: int) -> bool:
    """Whether anybody wants to see what belongs to a level of LT_DEBUG."""
    switches = config.current()
    return switches.debug >= level or bool(switches.dump)


def show(level: int, name: str, text: Callable[[], str]) -> None:
    """Print what a stage gave from that level of LT_DEBUG on, and write it to a file of LT_DUMP at any level."""
    if not is_shown(level):
        return
    # The text is made only where somebody wants it: a graph of a large model has thousands of lines.
    switches, words = config.current(), text()
    if switches.debug >= level:
        print(f"--- {name}\n{words}", file=sys.stderr)
    if switches.dump:
        folder = pathlib.Path(switches.dump)
        folder.mkdir(parents=True, exist_ok=True)
        # Numbered by what lies there already: a process compiles many graphs, and several may share the folder.
        number = len(list(folder.iterdir()))
        (folder / f"{number:03d}_{name}.txt").write_text(words + "\n", encoding="utf-8", errors="replace")


def graph_text(graph: Graph) -> str:
    """A line for each node, each new state, and the results."""
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
    """A line for each node that a library kernel computes."""
    return "\n".join(
        f"{n.op} : {n.type} by {kernel.name}({', '.join(str(i.type) for i in match.operands)})"
        for n, (kernel, match) in matches.items()
    )


def calls_text(calls: Iterable[KernelCall]) -> str:
    """Each call; of a nest its loops, and the source that is compiled for it."""
    parts = []
    for c in calls:
        parts.append(f"{c.kernel} gives {', '.join(n.op for n, _ in c.results)}{f' at {c.where}' if c.where else ''}")
        if c.nest is not None:
            parts += [str(c.nest), generate(c.nest)]
    return "\n".join(parts)


def program_text(program: Program) -> str:
    """A line for each buffer, and for each instruction in order."""
    lines = [f"{b.index}: {b.kind} {b.name}{' ' if b.name else ''}{b.type}" for b in program.buffers]
    lines += [f"{i.label}: {list(i.reads)} -> {list(i.writes)}  [{i.direction}]" for i in program.instrs]
    return "\n".join(lines)
