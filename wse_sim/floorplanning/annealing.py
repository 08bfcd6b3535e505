"""Compiled simulated annealing of slicing trees: reduce the wirelength of a tree that fits on the mesh.

The shape curves of a node follow from those of its two parts, so a change requires updates up to the root. Overwritten
curves are saved until a change is accepted. Coordinates are doubled, because centres may be between PEs.

The arrays are passed separately and rows are never sliced, because Numba would count references to them at every call:

- `tree`: [TREE_ROWS, nodes], see `TREE_ROWS`
- `curves`: [nodes, entries], the least height for each width up to `room`, then the least width for each height
- `kept`, `kept_nodes`: saved curves and the nodes they belong to; the last entry of `kept_nodes` is their number
"""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from wse_sim.machine_code import kept

CUT_ROW, FIRST_ROW, SECOND_ROW, PARENT_ROW, ROOT_ROW = range(5)
TREE_ROWS = 5
"""Rows of `tree`: direction of a cut, its first part, its second part, its parent, and the root in the first column."""
# Digest of both source files: cached machine code is invalid after an edit of either.
ANNEALING_DIGEST = hashlib.blake2b(
    b"".join(Path(__file__).with_name(f"{n}.py").read_bytes() for n in ("annealing", "columns"))
)
HORIZONTAL_CUT = 1
INFEASIBLE = 16000

CompiledArray = Any
"""An array in compiled code."""


def compile_inlined(function: Any) -> Any:
    """Return `function` compiled by Numba, for inlining into other compiled functions only.

    It cannot be called from Python.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return njit(function, error_model="numpy", **options)


def compile_entry_point(signature: str) -> Callable[[Any], Any]:
    """Return a decorator that compiles an entry point with this signature, or loads it from the cache.

    The compiled function releases the global interpreter lock.
    """
    return kept(signature, identity=ANNEALING_DIGEST.hexdigest(), nogil=True)


@compile_inlined
def draw_random(random: CompiledArray, below: int) -> int:
    """Return a number from 0 to `below` - 1 and advance the state, the only element of `random`.

    The generator is xorshift, so a seed gives the same numbers on every machine. The state must not be 0.
    """
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return int(np.int64((x >> np.uint64(11)) % np.uint64(below)))


@compile_inlined
def invert_curve(curves: CompiledArray, node: int, source: int, length: int, to: int, end: int) -> None:
    """Write the inverse of a curve of `node` in the same row of `curves`.

    The curve has `length` entries from `source` on. Its inverse is written to the entries `to` to `end` (exclusive);
    entries that no value of the curve reaches are `INFEASIBLE`.
    """
    rest = end
    for i in range(length):
        # Entries do not increase, so each entry of the inverse is written once, the last first.
        least = to + curves[node, source + i] - 1
        while rest > least:
            rest -= 1
            curves[node, rest] = i + 1
    for i in range(to, rest):
        curves[node, i] = INFEASIBLE


@compile_inlined
def combine_curves(tree: CompiledArray, curves: CompiledArray, node: int, room: int) -> None:
    """Compute both curves of the cut `node` from those of its parts, in place. `room` is the number of widths.

    Sums are at most `INFEASIBLE`.
    """
    one, other, end = tree[FIRST_ROW, node], tree[SECOND_ROW, node], curves.shape[1]
    if tree[CUT_ROW, node] == HORIZONTAL_CUT:
        for i in range(room):
            curves[node, i] = min(INFEASIBLE, curves[one, i] + curves[other, i])
        invert_curve(curves, node, 0, room, room, end)
    else:
        for i in range(room, end):
            curves[node, i] = min(INFEASIBLE, curves[one, i] + curves[other, i])
        invert_curve(curves, node, room, end - room, 0, room)


@compile_inlined
def refresh_curves(
    tree: CompiledArray,
    curves: CompiledArray,
    kept: CompiledArray,
    kept_nodes: CompiledArray,
    node: int,
    is_new: bool,
    room: int,
) -> None:
    """Recompute the curves of `node` and of its ancestors, up to the first whose curves do not change.

    If `is_new`, the first node counts as changed. Overwritten curves are appended to `kept` and their nodes to
    `kept_nodes`, so that `undo_change` can restore them. A `node` of -1 does nothing.
    """
    last = len(kept_nodes) - 1
    while node >= 0:
        depth = kept_nodes[last]
        kept_nodes[depth] = node
        kept_nodes[last] = depth + 1
        for i in range(curves.shape[1]):
            kept[depth, i] = curves[node, i]
        combine_curves(tree, curves, node, room)
        # No branch in the loop, so that it is vectorized.
        differs = 0
        for i in range(curves.shape[1]):
            differs |= kept[depth, i] ^ curves[node, i]
        # Unchanged curves cannot change those of ancestors. Most updates end here, far below the root.
        if differs == 0 and not is_new:
            return
        is_new = False
        node = tree[PARENT_ROW, node]


@compile_inlined
def copy_topology(source: CompiledArray, to: CompiledArray) -> None:
    """Copy the topology `source` into `to`."""
    for row in range(TREE_ROWS):
        for i in range(source.shape[1]):
            to[row, i] = source[row, i]


@compile_inlined
def undo_change(
    tree: CompiledArray, old: CompiledArray, curves: CompiledArray, kept: CompiledArray, kept_nodes: CompiledArray
) -> None:
    """Restore `tree` from `old`, and the curves that were saved since the last change.

    Saved curves are restored in reverse order, because a node may have been saved twice.
    """
    copy_topology(old, tree)
    for depth in range(kept_nodes[len(kept_nodes) - 1] - 1, -1, -1):
        node = kept_nodes[depth]
        for i in range(curves.shape[1]):
            curves[node, i] = kept[depth, i]


@compile_inlined
def replace_child(tree: CompiledArray, parent: int, old: int, new: int) -> None:
    """Make `new` a child of `parent` (-1: the root) in place of `old`. The parent of `old` is unchanged."""
    tree[PARENT_ROW, new] = parent
    if parent < 0:
        tree[ROOT_ROW, 0] = new
    elif tree[FIRST_ROW, parent] == old:
        tree[FIRST_ROW, parent] = new
    else:
        tree[SECOND_ROW, parent] = new


@compile_inlined
def sibling_node(tree: CompiledArray, node: int) -> int:
    """Return the other child of the parent of `node`, which must not be the root."""
    p = tree[PARENT_ROW, node]
    return int(tree[SECOND_ROW, p] if tree[FIRST_ROW, p] == node else tree[FIRST_ROW, p])


@compile_inlined
def is_ancestor(tree: CompiledArray, one: int, other: int) -> bool:
    """Return whether `one` is `other` or an ancestor of it."""
    while other >= 0 and other != one:
        other = tree[PARENT_ROW, other]
    return bool(other == one)


@compile_inlined
def swap_children(tree: CompiledArray, node: int) -> None:
    """Exchange the first and the second part of the cut `node`. Its curves do not change."""
    tree[FIRST_ROW, node], tree[SECOND_ROW, node] = tree[SECOND_ROW, node], tree[FIRST_ROW, node]


@compile_inlined
def exchange_nodes(tree: CompiledArray, one: int, other: int) -> bool:
    """Exchange the positions of two nodes with their subtrees.

    Return True, or False without a change if one contains the other. Curves are not updated.
    """
    if is_ancestor(tree, one, other) or is_ancestor(tree, other, one):
        return False
    p, q = tree[PARENT_ROW, one], tree[PARENT_ROW, other]
    if p == q:
        swap_children(tree, p)
        return True
    is_first = tree[FIRST_ROW, q] == other
    replace_child(tree, p, one, other)
    # `other` has two parents for a moment, so its old position is found by side.
    tree[FIRST_ROW if is_first else SECOND_ROW, q] = one
    tree[PARENT_ROW, one] = q
    return True


@compile_inlined
def move_node(tree: CompiledArray, node: int, to: int, cut: int, is_first: bool) -> bool:
    """Move `node` together with its parent cut, so that it shares this cut with `to`. Return whether this is possible.

    The cut takes the place of `to` and gets the direction `cut`; `node` becomes its first part if `is_first`. Nothing
    changes if `to` is in the subtree of `node` or is its parent, or if `node` is the root. Curves are not updated.
    """
    # A node cannot move into its own subtree, and the root cannot move.
    p = tree[PARENT_ROW, node]
    if p < 0 or p == to or is_ancestor(tree, node, to):
        return False
    replace_child(tree, tree[PARENT_ROW, p], p, sibling_node(tree, node))
    replace_child(tree, tree[PARENT_ROW, to], to, p)
    tree[CUT_ROW, p] = cut
    tree[FIRST_ROW, p] = node if is_first else to
    tree[SECOND_ROW, p] = to if is_first else node
    tree[PARENT_ROW, node] = p
    tree[PARENT_ROW, to] = p
    return True


@compile_inlined
def apply_random_change(
    tree: CompiledArray, ends: CompiledArray, random: CompiledArray, touched: CompiledArray
) -> bool:
    """Change the topology at random. Return False, without a change, if the drawn change is not possible.

    Changes are: exchange the parts of a cut, turn a cut, exchange two nodes, or move a node. `touched` receives the two
    nodes whose curves have to be refreshed, -1 for none, and 1 if the second one has moved. `ends` [wires, 2] are the
    blocks that each wire connects.
    """
    nodes = tree.shape[1]
    blocks = (nodes + 1) // 2
    # Swapping parts changes no curve: it is the cheapest change and is drawn often.
    touched[0], touched[1], touched[2] = -1, -1, 0
    kind = draw_random(random, 16)
    if kind < 5:
        node = blocks + draw_random(random, blocks - 1)
        if kind < 3:
            swap_children(tree, node)
        else:
            tree[CUT_ROW, node] = 1 - tree[CUT_ROW, node]
            touched[0] = node
        return True
    one, to = draw_random(random, nodes), draw_random(random, nodes)
    if kind < 11:
        if kind < 8:
            # Exchange with the sibling of its parent, which rotates the tree.
            p = tree[PARENT_ROW, one]
            if p < 0 or tree[PARENT_ROW, p] < 0:
                return False
            to = sibling_node(tree, p)
        touched[0], touched[1] = tree[PARENT_ROW, one], tree[PARENT_ROW, to]
        return bool(exchange_nodes(tree, one, to))
    if kind < 14 and len(ends):
        # Move a block next to one that it is wired to, or to an ancestor of that.
        wire, side = draw_random(random, len(ends)), draw_random(random, 2)
        one, to = ends[wire, side], ends[wire, 1 - side]
        for _ in range(draw_random(random, 3)):
            to = max(to, tree[PARENT_ROW, to])
    # Curves change at the old and at the new position.
    p = tree[PARENT_ROW, one]
    if p >= 0:
        touched[0], touched[1], touched[2] = tree[PARENT_ROW, p], p, 1
    return bool(move_node(tree, one, to, draw_random(random, 2), draw_random(random, 2) == 0))


@compile_inlined
def push_part(stack: CompiledArray, at: int, node: int, x: int, y: int, width: int, height: int) -> None:
    """Write `node` and its part of the mesh (x, y, width, height) to entry `at` of the stack."""
    stack[at, 0] = node
    stack[at, 1] = x
    stack[at, 2] = y
    stack[at, 3] = width
    stack[at, 4] = height


@compile_inlined
def locate_blocks(
    tree: CompiledArray,
    curves: CompiledArray,
    centres: CompiledArray,
    stack: CompiledArray,
    room: int,
    width: int,
    height: int,
) -> None:
    """Write the doubled centres (x, y) of all blocks on a `width` x `height` mesh to `centres`.

    The tree has to fit there. A block has its least size and is centred in its part. Each row of `curves` has
    the least heights of a node by width and, from column `room` on, its least widths by height. `stack` is a
    scratch buffer.
    """
    blocks = len(centres)
    push_part(stack, 0, tree[ROOT_ROW, 0], 0, 0, width, height)
    size = 1
    while size:
        size -= 1
        node, x, y, w, h = stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3], stack[size, 4]
        if node < blocks:
            high = curves[node, w - 1]
            wide = curves[node, room + high - 1]
            centres[node, 0] = 2 * (x + (w - wide) // 2) + wide
            centres[node, 1] = 2 * (y + (h - high) // 2) + high
        elif tree[CUT_ROW, node] == HORIZONTAL_CUT:
            at = curves[tree[FIRST_ROW, node], w - 1]
            push_part(stack, size, tree[FIRST_ROW, node], x, y, w, at)
            push_part(stack, size + 1, tree[SECOND_ROW, node], x, y + at, w, h - at)
            size += 2
        else:
            at = curves[tree[FIRST_ROW, node], room + h - 1]
            push_part(stack, size, tree[FIRST_ROW, node], x, y, at, h)
            push_part(stack, size + 1, tree[SECOND_ROW, node], x + at, y, w - at, h)
            size += 2


@compile_inlined
def mesh_excess(tree: CompiledArray, curves: CompiledArray, room: int, width: int, height: int) -> int:
    """Return the rows or columns, whichever are fewer, by which a tree exceeds the mesh; 0 if it fits.

    Return `INFEASIBLE` if neither the width nor the height of the mesh has a layout. `room` is the number of widths.
    """
    root = tree[ROOT_ROW, 0]
    # A tree that is far too high may be only a little too wide, since curves are step functions.
    high, wide = curves[root, width - 1], curves[root, room + height - 1]
    if high >= INFEASIBLE and wide >= INFEASIBLE:
        return INFEASIBLE
    return int(max(0, min(high - height, wide - width)))


@compile_inlined
def locate_on_least_mesh(
    tree: CompiledArray,
    curves: CompiledArray,
    centres: CompiledArray,
    stack: CompiledArray,
    room: int,
    width: int,
    height: int,
) -> None:
    """Write the doubled centres of all blocks for the mesh, enlarged in one direction if the tree does not fit.

    It is the direction with the smaller excess. One of the two has to be feasible.
    """
    root = tree[ROOT_ROW, 0]
    # Enlarge the mesh in one direction only, so that other distances are kept.
    high, wide = curves[root, width - 1], curves[root, room + height - 1]
    if high - height <= wide - width:
        locate_blocks(tree, curves, centres, stack, room, width, max(high, height))
    else:
        locate_blocks(tree, curves, centres, stack, room, max(wide, width), height)


@compile_inlined
def doubled_wirelength(centres: CompiledArray, ends: CompiledArray, weights: CompiledArray) -> int:
    """Return twice the weighted Manhattan length of all wires, from doubled centres."""
    total = 0
    for i in range(len(ends)):
        a, b = ends[i, 0], ends[i, 1]
        total += weights[i] * (abs(centres[a, 0] - centres[b, 0]) + abs(centres[a, 1] - centres[b, 1]))
    return total


@compile_entry_point(
    "void(int32[:,::1], int16[:,::1], int32[::1], int32[:,::1], int32[:,::1], int32[:,::1], int64[::1], float64[::1],"
    "int64, int64, int64)"
)
def evaluate_tree(
    tree: CompiledArray,
    curves: CompiledArray,
    nodes: CompiledArray,
    centres: CompiledArray,
    stack: CompiledArray,
    ends: CompiledArray,
    weights: CompiledArray,
    state: CompiledArray,
    room: int,
    width: int,
    height: int,
) -> None:
    """Compute the curves of all cuts from those of the blocks, and the cost of the tree in `state[3]` and `state[4]`.

    `state[3]` is the cost: twice the wirelength, plus `state[2]` for each row or column beyond the mesh. `state[4]` is
    the cost if the tree fits. Either is infinity otherwise.
    """
    blocks = (tree.shape[1] + 1) // 2
    # One list holds the nodes to visit at its start and the visited cuts at its end, parents after children.
    size, count = 1, len(nodes)
    nodes[0] = tree[ROOT_ROW, 0]
    while size:
        size -= 1
        node = nodes[size]
        if node >= blocks:
            count -= 1
            nodes[count] = node
            nodes[size], nodes[size + 1] = tree[FIRST_ROW, node], tree[SECOND_ROW, node]
            size += 2
    for i in range(count, len(nodes)):
        combine_curves(tree, curves, nodes[i], room)
    excess = mesh_excess(tree, curves, room, width, height)
    state[3] = state[4] = np.inf
    if excess < INFEASIBLE:
        locate_on_least_mesh(tree, curves, centres, stack, room, width, height)
        state[3] = state[2] * excess + doubled_wirelength(centres, ends, weights)
        if excess == 0:
            state[4] = state[3]


@compile_entry_point(
    "void(int32[:,::1], int16[:,::1], int32[:,:,::1], int16[:,::1], int32[::1], int32[:,::1], int32[:,::1],"
    "int32[:,::1], int64[::1], uint64[::1], float64[::1], int64, int64, int64, int64)"
)
def anneal_tree(
    tree: CompiledArray,
    curves: CompiledArray,
    topologies: CompiledArray,
    kept: CompiledArray,
    kept_nodes: CompiledArray,
    centres: CompiledArray,
    stack: CompiledArray,
    ends: CompiledArray,
    weights: CompiledArray,
    random: CompiledArray,
    state: CompiledArray,
    room: int,
    width: int,
    height: int,
    changes: int,
) -> None:
    """Try `changes` random changes of a tree by simulated annealing. Updates all arrays but `ends` and `weights`.

    `topologies` holds the accepted topology and the best one that fits. `state` holds the temperature, its factor for
    each change, the cost of a row beyond the mesh, the cost of the accepted tree, and the least cost of a tree that
    fits. Curves and `state` have to be those of `evaluate_tree`.
    """
    old, best, touched = topologies[0], topologies[1], np.zeros(3, np.int64)
    last = len(kept_nodes) - 1
    copy_topology(tree, old)
    for _ in range(changes):
        # The temperature falls with every change, so rounds may have any length.
        state[0] *= state[1]
        kept_nodes[last] = 0
        is_changed = apply_random_change(tree, ends, random, touched)
        if not is_changed:
            continue
        for k in range(2):
            if touched[k] >= 0:
                refresh_curves(tree, curves, kept, kept_nodes, touched[k], k == 1 and touched[2] == 1, room)
        # Draw the acceptance threshold first: most changes exceed it by their height, without computing wires.
        uniform = (draw_random(random, 1 << 30) + 0.5) / (1 << 30)
        allowed = state[3] - state[0] * math.log(uniform)
        excess = mesh_excess(tree, curves, room, width, height)
        new = state[2] * excess
        if excess < INFEASIBLE and new <= allowed:
            locate_on_least_mesh(tree, curves, centres, stack, room, width, height)
            new += doubled_wirelength(centres, ends, weights)
            if new <= allowed:
                state[3] = new
                copy_topology(tree, old)
                if new < state[4] and excess == 0:
                    state[4] = new
                    copy_topology(tree, best)
                continue
        undo_change(tree, old, curves, kept, kept_nodes)
