"""Print a graph in the DOT format of Graphviz: a box for each operation, an ellipse for each leaf."""

from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Type

CONSTANT_OPS = ("full", "const")
"""Constants are shown in the box of the operation that reads them: an edge for each would clutter the graph."""


def dot_text(graph: Graph) -> str:
    """Return the DOT text of a graph: operations with their types, and state and outputs by name.

    Constants have no node; they are in the label of the operation that uses them.
    """
    numbers = {n: k for k, n in enumerate(graph.nodes()) if n.op not in CONSTANT_OPS}
    lines = ["digraph step {", '  node [shape=box, fontname="monospace", fontsize=10];']
    for n, k in numbers.items():
        name = n.attrs.get("name") or n.attrs.get("id") if n.op in ("batch", "state") else ""
        shape = ", shape=ellipse" if name else ""
        lines.append(f"  n{k} [label={_quote_lines(f'{name or n.op}{_constant_operands(n)}', _types(n))}{shape}];")
        lines += [f"  n{numbers[i]} -> n{k};" for i in n.inputs if i in numbers]
    ends = [*((f"new {s}", n) for s, n in graph.updates.items()), *zip(graph.output_names, graph.outputs, strict=True)]
    for k, (name, n) in enumerate(ends):
        lines.append(f"  r{k} [label={_quote_lines(name)}, shape=ellipse, style=bold];")
        lines += [f"  n{numbers[n]} -> r{k};"] if n in numbers else []
    return "\n".join([*lines, "}", ""])


def _constant_operands(n: Node) -> str:
    """Return the text of a node's constant operands: numbers in four digits, arrays by type; "" without any."""
    splats = [
        f"{i.attrs['value']:.4g}" if i.op == "full" else f"const {i.type}" for i in n.inputs if i.op in CONSTANT_OPS
    ]
    return f" {', '.join(splats)}" if splats else ""


def _types(n: Node) -> str:
    types: tuple[Type, ...] = n.type if isinstance(n.type, tuple) else (n.type,)
    return ", ".join(map(str, types))


def _quote_lines(*lines: str) -> str:
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
