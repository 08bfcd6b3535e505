"""Check the result of each compiler pass. Each check raises CompileError with the location of the node at fault."""

from collections.abc import Iterable

from lazytensor.compiler.kernel_calls import KernelCall, is_leaf, stored_type, stored_value
from lazytensor.compiler.match import Matches
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import CUSTOM_CALL, wrapped_operation
from lazytensor.ir.graph import Attrs, Graph, Node
from lazytensor.ir.nest import Nest
from lazytensor.ir.program import Program
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import own
from lazytensor.ops.op import OPS

_REPORT_HINT = "Report it as a bug of the compiler; LT_DEBUG=2 prints the graph after each pass."


def check_graph(graph: Graph, result: Graph) -> None:
    """Raise CompileError unless each node of `result` has the type that its operation infers from its inputs.

    An operation that does not exist, and new state of another type, raise it too. `graph` is not used.
    """
    for n in result.nodes():
        if n.op == "leaf":
            continue  # a leaf takes its type from its array
        _check_type(n, n.op, n.attrs)
    for state, update in result.updates.items():
        if update.type != result.state[state].type:
            raise CompileError(
                f"state {state} has the type {result.state[state].type}, but its new value has {update.type}",
                where=update.where,
                hint=_REPORT_HINT,
            )


def check_custom_calls(graph: Graph, wrapped: Graph) -> None:
    """Raise CompileError unless each custom call wraps an operation of the op table and has the type that it infers.

    `graph` is not used.
    """
    for n in wrapped.nodes():
        if n.op == CUSTOM_CALL:
            _check_type(n, wrapped_operation(n), n.attrs["backend_config"])


def _check_type(n: Node, op: str, attrs: Attrs) -> None:
    """Raise CompileError unless the operation `op` exists and infers the type of `n` from `attrs` and the inputs."""
    if op not in OPS:
        raise CompileError(f"the operation {op} does not exist", where=n.where, hint=_REPORT_HINT)
    expected = OPS[op].infer(*(i.type for i in n.inputs), **attrs)
    if expected != n.type:
        raise CompileError(
            f"{op} returns {expected}, but its node has the type {n.type}", where=n.where, hint=_REPORT_HINT
        )


def check_matches(graph: Graph, matches: Matches) -> None:
    """Raise CompileError unless each matched kernel reads only nodes of the graph and gives the type of the node
    that it computes.
    """
    nodes = set(graph.nodes())
    for n, (kernel, match) in matches.items():
        if not nodes.issuperset((n, *match.operands)):
            raise CompileError(
                f"kernel {kernel.name} of {n.op} reads a node that is not in the graph",
                where=n.where,
                hint=_REPORT_HINT,
            )
        # The fallback kernel "call" has the operation as an attribute; other kernels have the name of their operation.
        op, attrs = kernel.name, match.attrs
        if op == "call":
            op, attrs = attrs["op"], attrs.get("attrs", {})
        inferred = OPS[op].infer(*(i.type for i in match.operands), **own(attrs)) if op in OPS else n.type
        if inferred != n.type:
            raise CompileError(
                f"kernel {kernel.name} returns {inferred}, but its node {n.op} has the type {n.type}",
                where=n.where,
                hint=_REPORT_HINT,
            )


def check_calls(graph: Graph, calls: Iterable[KernelCall]) -> None:
    """Raise CompileError unless every value read is computed exactly once or is a leaf, and every nest is valid.

    The operands of a nest must have the types of the nodes that they are.
    """
    computed = set()
    for c in calls:
        for n, k in c.results:
            if (n, k) in computed:
                raise CompileError(
                    f"{n.op} is computed by two calls, the second of which is {c.kernel}",
                    where=c.where,
                    hint=_REPORT_HINT,
                )
            computed.add((n, k))
        if c.nest is not None:
            _check_nest(
                c.nest, [stored_type(stored_value(n)) for n in c.operands], [stored_type(v) for v in c.results], c
            )
    needed: list[tuple[Node, str]] = [(n, c.kernel) for c in calls for n in c.operands]
    for n, reader in (*needed, *((r, "the step") for r in graph.roots())):
        value = stored_value(n)
        if value not in computed and not is_leaf(value[0]) and value[0].op != "full":
            raise CompileError(
                f"{reader} reads {value[0].op}, which no call computes", where=n.where, hint=_REPORT_HINT
            )


def _check_nest(nest: Nest, inputs: list[Type], outputs: list[Type], c: KernelCall) -> None:
    try:
        nest.check()
    except CompileError as e:
        raise CompileError(e.what, where=c.where, hint=_REPORT_HINT) from e
    if [*nest.inputs, *nest.outputs] != [*inputs, *outputs]:
        raise CompileError(
            f"nest {nest.name} has operands of other types than the nodes that it computes",
            where=c.where,
            hint=_REPORT_HINT,
        )


def check_program(graph: Graph, program: Program) -> None:
    """Raise CompileError unless buffers are written before they are read, and types agree with the graph.

    Fetches must have the types of the graph's outputs; new state and operands of nests need equal size and dtype.
    """
    program.check()
    if len(program.fetches) != len(graph.outputs):
        wanted = len(graph.outputs)
        raise CompileError(
            f"the number of outputs of the graph is {wanted}, but the program returns {len(program.fetches)}",
            hint=_REPORT_HINT,
        )
    for f, n in zip(program.fetches, graph.outputs, strict=True):
        if program.buffers[f].type != n.type:
            raise CompileError(
                f"the output {n.op} has the type {n.type}, but its buffer has {program.buffers[f].type}",
                where=n.where,
                hint=_REPORT_HINT,
            )
    for state, (old, new) in program.state.items():
        a, b = program.buffers[old].type, program.buffers[new].type
        if (a.size, a.dtype) != (b.size, b.dtype):
            raise CompileError(
                f"state {state} has the type {a}, but the buffer of its new value has {b}", hint=_REPORT_HINT
            )
    for instr in program.instrs:
        if instr.nest is None:
            continue
        operands = [program.buffers[b].type for b in (*instr.reads, *instr.writes)]
        for buffer, type in zip(operands, (*instr.nest.inputs, *instr.nest.outputs), strict=True):
            # A nest reads flat arrays, so the shape may differ.
            if (buffer.size, buffer.dtype) != (type.size, type.dtype):
                raise CompileError(
                    f"{instr.label} has an operand of type {type}, but its buffer has {buffer}",
                    where=instr.where,
                    hint=_REPORT_HINT,
                )
