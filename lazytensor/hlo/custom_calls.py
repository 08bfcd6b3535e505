"""Wrap each ATen operation of a graph in a custom call of XLA, and unwrap it again.

The vendor's front end captures a step with XLA's lazy tensors. A custom call carries an ATen operation through XLA's
input language, HLO, without breaking it into HLO's simpler operations. A wrapped graph is a `Graph` whose operations
are nodes "custom_call". They are not in the op table, because no other pass reads them.
"""

from lazytensor.cirh.generic import CONSTANT_OPS, LEAF_OPS
from lazytensor.ir.graph import (
    Graph,
    Node,
    intern_key,
    new_uninterned_node,
    node_from_template,
    node_template,
    rebuild,
)

CUSTOM_CALL = "custom_call"
"""The operation of a wrapped node. Its attributes are `call_target_name` and `backend_config`."""
TARGET_PREFIX = "aten."
"""Prefix of a call target; the name of an operation follows."""
_UNWRAPPED_OPS = frozenset((*LEAF_OPS, *CONSTANT_OPS, "result"))
"""Operations that are arguments, constants or names of values in HLO, not calls."""


def custom_call(n: Node, inputs: tuple[Node, ...]) -> Node:
    """Return the custom call of the ATen operation of `n`, with operands `inputs` and the location of `n`.

    It is not shared with equal calls.
    """
    attrs = {"call_target_name": f"{TARGET_PREFIX}{n.op}", "backend_config": n.attrs}
    return new_uninterned_node((CUSTOM_CALL, attrs, (), n.type, n.where, n.tracks), inputs)


def wrapped_operation(n: Node) -> str:
    """Return the name of the ATen operation that a custom call wraps, or that of another node's operation."""
    return n.attrs["call_target_name"].removeprefix(TARGET_PREFIX) if n.op == CUSTOM_CALL else n.op


def wrap_custom_calls(graph: Graph) -> Graph:
    """Return the graph with each ATen operation wrapped in a custom call.

    The call target of `linear` is "aten.linear", and `backend_config` has the attributes of the operation. Arguments
    and constants are unchanged.
    """

    def wrap(n: Node, inputs: tuple[Node, ...]) -> Node:
        if n.op not in _UNWRAPPED_OPS:
            return custom_call(n, inputs)
        return new_uninterned_node(node_template(n), inputs) if inputs else n

    mapping = rebuild(graph.roots(), wrap)
    return graph.replace_roots(mapping.__getitem__)


def unwrap(wrapped: Graph) -> Graph:
    """Return the graph of ATen operations of which `wrapped` is the wrapped form.

    Its nodes are those of the original graph while that graph exists, because equal nodes are one object. Two equal
    calls stay two nodes.
    """
    # Nodes that this graph has already. An equal call after that was recorded separately.
    nodes: set[Node] = set()

    def unwrap_node(n: Node, inputs: tuple[Node, ...]) -> Node:
        if n.op != CUSTOM_CALL and not inputs:
            return n
        op, attrs = wrapped_operation(n), n.attrs
        if n.op == CUSTOM_CALL:
            attrs = attrs["backend_config"]
        items = intern_key(op, inputs, attrs)[2] if attrs else ()
        template = (op, attrs, items, n.type, n.where, n.tracks)
        unwrapped = node_from_template(template, inputs)
        if unwrapped in nodes:
            unwrapped = new_uninterned_node(template, inputs)
        nodes.add(unwrapped)
        return unwrapped

    mapping = rebuild(wrapped.roots(), unwrap_node)
    return wrapped.replace_roots(mapping.__getitem__)
