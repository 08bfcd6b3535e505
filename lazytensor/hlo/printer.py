"""Print a wrapped graph as a module of StableHLO, in the dialect's form and in MLIR's generic form."""

from lazytensor.cirh.generic import (
    CONSTANT_OPS,
    attributes_text,
    constant_elements,
    elements_text,
    function_type,
    generic_module,
    leaf_attributes,
    number_values,
    result_attributes,
    result_names,
)
from lazytensor.cirh.listing import type_text
from lazytensor.cirh.locations import location
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import wrapped_operation
from lazytensor.ir.graph import Graph, Node

CALL_NAME, CONSTANT_NAME = "stablehlo.custom_call", "stablehlo.constant"
"""The operations of a wrapped graph in StableHLO."""
_API_VERSION = 4
"""The version of StableHLO's custom calls whose `backend_config` is a dictionary. In older ones it is a string."""


def hlo_text(wrapped: Graph, locations: bool = False) -> str:
    """Return a wrapped graph as StableHLO prints it.

    `locations` is whether each operation has its location in the user's code.
    cbfloat16, which MLIR does not have, is written as f16. Raise CompileError for an attribute that has no text.
    """
    leaves, operations, names = number_values(wrapped)
    arguments = ", ".join(f"{names[n]}: {type_text(n.type)} {leaf_attributes(n)}" for n in leaves)
    roots = wrapped.roots()
    results = ", ".join(
        f"{type_text(r.type)} {said}" for r, said in zip(roots, result_attributes(wrapped), strict=True)
    )
    returned = f"{', '.join(names[r] for r in roots)} : {', '.join(type_text(r.type) for r in roots)}"
    lines = [
        "module {",
        f"  func.func @graph({arguments}) -> ({results}) {{",
        *(f"    {_line(n, names)}{_place(n) if locations else ''}" for n in operations),
        f"    return {returned}" if roots else "    return",
        "  }",
        "}",
        "",
    ]
    return "\n".join(lines)


def hlo_generic_text(wrapped: Graph) -> str:
    """Return a wrapped graph in MLIR's generic form, without locations. Raise CompileError as `hlo_text` does."""
    return generic_module(wrapped, _generic_operation)


def _place(n: Node) -> str:
    """Return the location of a node with a space before it, or "" if the node has none."""
    return f" loc({location(n, wrapped_operation(n))})" if n.where else ""


def _line(n: Node, names: dict[Node, str]) -> str:
    """Return the line of an operation in the dialect's form, without its location."""
    left = f"{result_names(n, names)} ="
    if n.op in CONSTANT_OPS:
        mark = f"{{{_LEAF_MARK}}} " if n.op == "leaf" else ""
        return f"{left} {CONSTANT_NAME} {mark}{elements_text(constant_elements(n), n.type)}"
    operands = ", ".join(names[i] for i in n.inputs)
    target = n.attrs["call_target_name"]
    return f"{left} {CALL_NAME} @{target}({operands}) {{{_call_attributes(n)}}} : {function_type(n)}"


_LEAF_MARK = 'lt.leaf = "leaf"'
"""The attribute of a constant that is an array of the script, which equal arrays do not share."""


def _generic_operation(n: Node) -> tuple[str, str]:
    if n.op in CONSTANT_OPS:
        mark = f"{_LEAF_MARK}, " if n.op == "leaf" else ""
        return CONSTANT_NAME, f"{{{mark}value = {elements_text(constant_elements(n), n.type)}}}"
    return CALL_NAME, f'{{{_call_attributes(n)}, call_target_name = "{n.attrs["call_target_name"]}"}}'


def _call_attributes(n: Node) -> str:
    try:
        config = attributes_text(n.attrs["backend_config"], n.type)
    except CompileError as e:
        raise CompileError(f"{n.attrs['call_target_name']}: {e.what}", where=n.where) from e
    return f"api_version = {_API_VERSION} : i32, backend_config = {config}"
