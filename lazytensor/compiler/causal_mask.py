"""Find matrix products with a causal mask, so that the host can skip the part above the diagonal.

In causal attention a position attends only to itself and earlier ones. The attention weights are zero above the
diagonal; the scores and the weights' gradient there are replaced by constants or multiplied by those zeros. So two
thirds of the terms or results of the six products suffice.
"""

import dataclasses
import math
from collections import defaultdict

import numpy as np

from lazytensor.compiler.match import Matches
from lazytensor.compiler.scalar_bodies import is_pointwise
from lazytensor.ir.graph import Graph, Node
from lazytensor.kernels.kernel import KNOWN
from lazytensor.kernels.matmul import MATMUL
from lazytensor.kernels.panel_products import LEFT, RESULT

Users = dict[Node, list[Node]]


def mark_causal_products(graph: Graph, matches: Matches) -> Matches:
    """Return new matches, with the attribute KNOWN added to products of stacks of matrices that have a causal
    structure.

    KNOWN is LEFT if the first operand is zero above the diagonal, and else RESULT if the result is not used there.
    Products of two matrices are unchanged.
    """
    stacks = [n for n, (kernel, _) in matches.items() if kernel is MATMUL and len(n.type.shape) > 2]
    users: Users = defaultdict(list)
    for n in graph.nodes() if stacks else ():
        for i in n.inputs:
            users[i].append(n)
    # Results of the step are used everywhere.
    roots = set(graph.roots())
    known = {}
    for n in stacks:
        kernel, match = matches[n]
        side = (
            LEFT
            if _is_lower_triangular(match.operands[0])
            else RESULT
            if n not in roots and _is_upper_part_unused(n, users, roots)
            else 0
        )
        if side:
            known[n] = kernel, dataclasses.replace(match, attrs={**match.attrs, KNOWN: side})
    return matches | known


def _is_lower_triangular(n: Node) -> bool:
    """Return whether a value is known to be zero above the diagonal of its square matrices, for every input of the
    step.

    Recognized are a selection by a causal mask with 0 elsewhere, a softmax over the last dimension of one with -inf
    elsewhere, and casts of both.
    """
    if n.op == "cast":
        return _is_lower_triangular(n.inputs[0])
    if n.op == "softmax" and n.attrs["dim"] % len(n.type.shape) == len(n.type.shape) - 1:
        return _is_masked(n.inputs[0], -math.inf)
    return _is_masked(n, 0.0)


def _is_masked(n: Node, value: float) -> bool:
    if n.op != "where" or not _is_causal_mask(n.inputs[0]):
        return False
    other = n.inputs[2]
    return other.op == "full" and other.attrs["value"] == value


def _is_upper_part_unused(n: Node, users: Users, roots: set[Node]) -> bool:
    """Return whether all users of a value mask the part above the diagonal, or multiply it by zeros."""
    return n not in roots and all(
        (u.op == "where" and _is_causal_mask(u.inputs[0]) and u.inputs[2] is not n)
        or (u.op == "mul" and any(_is_lower_triangular(i) for i in u.inputs if i is not n))
        or (is_pointwise(u) and _is_upper_part_unused(u, users, roots))
        for u in users[n]
    )


def _is_causal_mask(n: Node) -> bool:
    """Return whether a boolean value is known to be False everywhere above the diagonal of its last two dimensions.

    Recognized are a comparison of row and column numbers, constants, and broadcasts of both. Return False if these
    dimensions differ in extent.
    """
    shape = n.type.shape
    rank = len(shape)
    if rank < 2 or shape[-1] != shape[-2]:
        return False
    if n.op == "ge":
        return [_counting_dim(i) for i in n.inputs] == [rank - 2, rank - 1]
    if n.value is not None:
        return not np.triu(np.asarray(n.value), 1).any()
    if n.op != "broadcast_in_dim" or n.attrs["dims"][-2:] != (rank - 2, rank - 1):
        return False
    return n.inputs[0].type.shape[-2:] == shape[-2:] and _is_causal_mask(n.inputs[0])


def _counting_dim(n: Node) -> int | None:
    """Return the dimension along which a value is 0, 1, 2 and so on, constant along the others, or None if there is
    none.

    Recognized are an "arange" with start 0 and step 1, and its reshapes and broadcasts.
    """
    if n.op == "arange":
        return 0 if (n.attrs["start"], n.attrs["step"]) == (0, 1) else None
    inner = _counting_dim(n.inputs[0]) if n.op in ("broadcast_in_dim", "reshape") else None
    if inner is None:
        return None
    if n.op == "broadcast_in_dim":
        along: int = n.attrs["dims"][inner]
        return along if n.type.shape[along] == n.inputs[0].type.shape[inner] else None
    wide = [d for d, extent in enumerate(n.type.shape) if extent > 1]
    return wide[0] if len(wide) == 1 else None
