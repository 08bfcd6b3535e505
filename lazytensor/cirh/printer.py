"""Graphs as MLIR text, in the spelling of the vendor's front end; nothing else knows that spelling.

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
"""Prefix of state that the front end keeps out of the text: it draws random numbers from a global seed."""


SUPPORTED_DTYPES = frozenset("bfloat16 float16 float32 int16 int32 int64 bool cbfloat16".split())
"""Names of the element types that CIRH computes in."""


def _result_names(out: Listing, n: Node, bases: tuple[str, ...]) -> tuple[str, list[str]]:
    """What stands left of the equals sign for several results, and the name of each."""
    if not bases:
        name = out.next_value_name()
        return f"{name}:{len(n.type)}", [f"{name}#{k}" for k in range(len(n.type))]
    names = [out.named(base) for base in bases]
    return ", ".join(names), names


def _refuse_types(n: Node) -> None:
    """Refuse an operation in a dtype that CIRH lacks; one whose operand has the dtype already follows from that."""
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
        hint="Convert in the data loader, before the step, and make constants with dtype=torch.float32 or int32.",
    )
    refuse("dtype", error, f"{n.op} gives {n.type}")


def _is_computed_in(n: Node, foreign: list[Type]) -> bool:
    return n.op not in ("state", "batch", "full", "const") and n.type in foreign


def _print_node(out: Listing, n: Node) -> None:
    out.node = n
    # Constants stand at the head of the function, so they are named and produce no line here.
    if n.op in ("full", "const"):
        array = np.asarray(n.attrs["value"]) if n.op == "full" else n.value
        assert array is not None
        out.names[n] = out.constant(dense_text(array, n.type))
    elif n.op == "result":
        out.names[n] = out.results[n.inputs[0]][n.attrs["index"]]
    else:
        _print_operation(out, n, OPS[n.op].cirh)


def _print_operation(out: Listing, n: Node, legality: Legality) -> None:
    try:
        text = _spell_operation(out, n, legality)
    except CompileError as e:
        if e.is_refusal:
            raise
        # A check notes the refusal; the operation is then printed as an unknown one.
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
"""By state, what is known of it beforehand, such as its sparsity."""


def cirh_text(
    graph: Graph,
    half: str = "float16",
    level: int = 1,
    notes: StateNotes | None = None,
    traced: Graph | None = None,
    locations: bool = False,
) -> str:
    """A lowered graph as CIRH. `half` is the name of the half type, `level` the precision optimization level.

    `traced` is the graph before anything was folded away: what it reads is an argument all the same. With `locations`
    each line says where in the user's code it comes from.
    Raises CompileError for an operation that CIRH does not have, naming the user's line.
    """
    out = Listing()
    # All state is returned, changed or not: the aliases of the arguments count the results in this order.
    results = [graph.updates.get(s, leaf) for s, leaf in _visible_state(graph)] + list(graph.outputs)
    # What a random number is computed from stays hidden with the state that carries it.
    # Last operands first: the order in which the original's lazy tensors are emitted, which numbers its arguments.
    order = topological(results, lambda n: n.op.startswith("random_"), last_first=True)
    _, arguments = _arguments(out, graph, order + (traced or graph).nodes(), notes or {})
    if locations:
        arguments = [f"{argument} loc(unknown)" for argument in arguments]
    for n in order:
        if n.op not in ("state", "batch"):
            _print_node(out, n)
    states = len(results) - len(graph.outputs)
    types = [type_text(r.type) for r in results]
    # Updated state is returned before the outputs, and only outputs have names of the user's.
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
    """The leaves in the order in which the body first uses them, as printed arguments."""
    shown = {leaf: s for s, leaf in _visible_state(graph)}
    place = {s: i for i, s in enumerate(shown.values())}
    # Arguments are numbered as the body meets them; state that is only carried on comes last.
    leaves = list(dict.fromkeys(n for n in order if n in shown or n in graph.inputs))
    leaves += [n for n in shown if n not in set(leaves)]
    printed = []
    for i, n in enumerate(leaves):
        out.names[n] = f"%arg{i}"
        if n in shown:
            # Sorted, so that the text does not depend on who noted what first.
            facts = sorted(notes.get(shown[n], {}).items())
            said = "".join(f"cs.{name} = {mlir_float(value, float32)} : f32, " for name, value in facts)
            said += f'tf.aliasing_output = {place[shown[n]]} : i64, tf.resource_name = "state.{shown[n]}"'
        else:
            said = f'cs.input_name = "{n.attrs["name"]}"'
        printed.append(f"%arg{i}: {type_text(n.type)} {{{said}}}")
    return leaves, printed


def torch_text(graph: Graph) -> str:
    """The traced graph, one ATen operation a line, with the user's file, line and module path."""
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
