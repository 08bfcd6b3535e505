"""Print graphs as MLIR text in the spelling of the vendor's front end.

`cirh_text` prints a lowered graph, `torch_text` the graph as it was traced, with the lines of the user's code.
"""

from collections.abc import Mapping

import numpy as np

from lazytensor.cirh.floats import mlir_float
from lazytensor.cirh.listing import Listing, dense_text, type_text
from lazytensor.cirh.locations import append_locations, location
from lazytensor.core.dtype import float32
from lazytensor.errors import CompileError, refuse
from lazytensor.ir.graph import Graph, Node, topological
from lazytensor.ir.operation import OPS, Legality
from lazytensor.ir.types import REPORTED_OPERATION, Type

HIDDEN_STATE_PREFIX = "rng"
"""Prefix of state that is not printed: the front end draws random numbers from a global seed instead."""


SUPPORTED_DTYPES = frozenset("bfloat16 float16 float32 int16 int32 int64 bool cbfloat16".split())
"""Names of the dtypes that CIRH computes in."""


def _result_names(out: Listing, n: Node, bases: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the left side of the equation for an operation with several results, and the name of each result.

    Without base names, the results are numbered parts of one value, such as %1#0.
    """
    if not bases:
        name = out.next_value_name()
        return f"{name}:{len(n.type)}", [f"{name}#{k}" for k in range(len(n.type))]
    names = [out.named(base) for base in bases]
    return ", ".join(names), names


def _refuse_types(n: Node) -> None:
    """Refuse an operation with a dtype that CIRH does not have: raise CompileError, or record it while a script is
    checked.

    An operation is not refused if an operand is computed in the same dtype, because that operand is refused already.
    """
    types = n.type if isinstance(n.type, tuple) else (n.type,)
    foreign = [t for t in (*(i.type for i in n.inputs), *types) if t.dtype.name not in SUPPORTED_DTYPES]
    if not foreign or any(_is_computed_in(i, foreign) for i in n.inputs):
        return
    kinds, side = "'bf16', 'f16', 'f32', 'i16', 'i32', 'i64'", ""
    if n.op == "cast":
        kinds = "'!cs.f8e5', '!cs.cb16', 'bf16', 'f16', 'f32', 'i1', 'i16', 'i32', 'i64'"
        side = "input " if n.inputs[0].type in foreign else "output "
    name, dtype = {"cast": "Cast"}.get(n.op, n.op), foreign[0].dtype.mlir.removeprefix("u")
    error = CompileError(
        f"'cirh.{name}' op has unsupported {side}dtype: '{dtype}'. Supported dtypes are: {kinds}",
        where=n.where,
        hint=(
            "Convert tensors in the data loader, before the step, and create constants with dtype=torch.float32 or "
            "int32."
        ),
    )
    refuse("dtype", error, f"{n.op} gives {n.type}")


def _is_computed_in(n: Node, foreign: list[Type]) -> bool:
    return n.op not in ("state", "batch", "full", "const") and n.type in foreign


def _print_node(out: Listing, n: Node) -> None:
    """Print a node, or name it if it is a constant or a result of another node."""
    out.node = n
    # Constants are printed at the head of the function, so they only get a name here.
    if n.op in ("full", "const"):
        array = np.asarray(n.attrs["value"]) if n.op == "full" else n.value
        assert array is not None
        out.names[n] = out.constant(dense_text(array, n.type))
    elif n.op == "result":
        out.names[n] = out.results[n.inputs[0]][n.attrs["index"]]
    else:
        _print_operation(out, n, OPS[n.op].cirh)


def _print_operation(out: Listing, n: Node, legality: Legality) -> None:
    """Print an operation, and enter the names of its results.

    One that CIRH does not have is refused with the user's line. While a script is checked, it is printed by its ATen
    name.
    """
    try:
        text = _spell_operation(out, n, legality)
    except CompileError as e:
        if e.is_refusal:
            raise
        # During a check, `refuse` records the error and returns; the operation is then printed by its ATen name.
        operands, name = ", ".join(str(i.type) for i in n.inputs), n.attrs.get("function", f"aten::{n.op}")
        if n.where is None or n.where.operation != REPORTED_OPERATION:
            refuse(n.attrs.get("rule", "no lowering"), e, f"{name}({operands})")
        text = f"torch.aten.{n.op}"
    if isinstance(n.type, tuple):
        left, out.results[n] = _result_names(out, n, legality.results)
    else:
        left = out.names[n] = out.next_value_name()
    out.line(f"{left} = {text}")


def _spell_operation(out: Listing, n: Node, legality: Legality) -> str:
    if n.op == "unsupported":
        raise CompileError(n.attrs["message"], where=n.where, hint=n.attrs["hint"])
    if legality.spelling is None:
        raise CompileError(f"failed to legalize operation 'torch.aten.{n.op}'", where=n.where, hint=legality.hint)
    _refuse_types(n)
    return legality.spelling(out, n)


StateNotes = Mapping[str, Mapping[str, float]]
"""Known properties of each state, such as its sparsity, by state id."""


def cirh_text(
    graph: Graph,
    half: str = "float16",
    level: int = 1,
    notes: StateNotes | None = None,
    traced: Graph | None = None,
    locations: bool = False,
) -> str:
    """Return a lowered graph as CIRH text.

    - `half`: the name of the half type.
    - `level`: the precision optimization level.
    - `notes`: known properties of state; see `StateNotes`.
    - `traced`: the graph before folding. Leaves that only this graph reads are arguments too.
    - `locations`: whether each line has its location in the user's code.

    All state is returned, even if unchanged, except the hidden state of random numbers. Raise CompileError with the
    user's line for an operation that CIRH does not have.
    """
    out = Listing()
    # All state is returned, even if unchanged: `tf.aliasing_output` numbers refer to this order.
    results = [graph.updates.get(s, leaf) for s, leaf in _visible_state(graph)] + list(graph.outputs)
    # The inputs of random operations are hidden, like the state that they use. Last operands are visited first, because
    # the vendor's front end emits, and numbers its arguments, in this order.
    order = topological(results, lambda n: n.op.startswith("random_"), last_first=True)
    _, arguments = _arguments(out, graph, order + (traced or graph).nodes(), notes or {})
    if locations:
        arguments = [f"{argument} loc(unknown)" for argument in arguments]
    for n in order:
        if n.op not in ("state", "batch"):
            _print_node(out, n)
    states = len(results) - len(graph.outputs)
    types = [type_text(r.type) for r in results]
    # Updated state is returned before the outputs, and only outputs have names.
    heads = [
        t if i < states else f'{t} {{cs.output_name = "{graph.output_names[i - states]}"}}' for i, t in enumerate(types)
    ]
    constants = [(f"    {name} = cirh.Const {dense}", out.first_users[dense]) for dense, name in out.constants.items()]
    tail = f'attributes {{cs.fp16_type = "{half}", cs.pol = {level} : i64}}'
    returned = (
        f"    return {', '.join(out.names[r] for r in results)} : {', '.join(types)}" if results else "    return"
    )
    signature = f"  func @graph({', '.join(arguments)}) -> ({', '.join(heads)}) {tail} {{"
    rows = [*constants, *out.lines, (returned, None), ("  }", None), ("}", None)]
    head = ["module  {", signature]
    if locations:
        unknown, *lines = append_locations(rows)
        return "\n".join([unknown, *head, *lines, ""])
    return "\n".join([*head, *(text for text, _ in rows), ""])


def _visible_state(graph: Graph) -> list[tuple[str, Node]]:
    return [(s, leaf) for s, leaf in graph.state.items() if not s.startswith(HIDDEN_STATE_PREFIX)]


def _arguments(out: Listing, graph: Graph, order: list[Node], notes: StateNotes) -> tuple[list[Node], list[str]]:
    """Return the leaves in the order of their first use in `order`, and their text as function arguments.

    State that is not used comes last. The names %arg0, %arg1, ... are entered in `out`.
    """
    shown = {leaf: s for s, leaf in _visible_state(graph)}
    place = {s: i for i, s in enumerate(shown.values())}
    # Arguments are numbered by their first use; unused state comes last.
    leaves = list(dict.fromkeys(n for n in order if n in shown or n in graph.inputs))
    leaves += [n for n in shown if n not in set(leaves)]
    printed = []
    for i, n in enumerate(leaves):
        out.names[n] = f"%arg{i}"
        if n in shown:
            # Sorted, so that the text does not depend on the order of the notes.
            facts = sorted(notes.get(shown[n], {}).items())
            said = "".join(f"cs.{name} = {mlir_float(value, float32)} : f32, " for name, value in facts)
            said += f'tf.aliasing_output = {place[shown[n]]} : i64, tf.resource_name = "state.{shown[n]}"'
        else:
            said = f'cs.input_name = "{n.attrs["name"]}"'
        printed.append(f"%arg{i}: {type_text(n.type)} {{{said}}}")
    return leaves, printed


def torch_text(graph: Graph) -> str:
    """Return the traced graph as text, one ATen operation per line, with the user's file, line and module path."""
    names: dict[Node, str] = {}
    lines = []
    for i, n in enumerate(topological(graph.roots())):
        names[n] = f"%{i}"
        args = ", ".join(
            [*(names[j] for j in n.inputs), *(f"{k} = {_shorten_attribute(v)}" for k, v in n.attrs.items())]
        )
        types = n.type if isinstance(n.type, tuple) else (n.type,)
        place = f" loc({location(n)})" if n.where else ""
        lines.append(f"    %{i} = torch.aten.{n.op}({args}) : {', '.join(map(type_text, types))}{place}")
    returned = ", ".join(names[r] for r in graph.roots())
    return "\n".join(["module {", "  func.func @graph() {", *lines, f"    return {returned}", "  }", "}", ""])


def _shorten_attribute(v: object) -> str:
    return type_text(v) if isinstance(v, Type) else f"<{len(v)} bytes>" if isinstance(v, bytes) else repr(v)
