"""Slicing trees under small changes, compiled: shorter wires at a height that the mesh has.

A node's curves follow from those of its parts, so a change costs a walk to the root. What a change overwrote is kept
until it is accepted. Coordinates are doubled, for centres lie between PEs.

`tree` has a column for each node and the rows below; `curves` a row for each node, its least heights for widths up to
`room`, and then its least widths. `kept` is where curves are kept, and `kept_nodes` says whose they are, and at its end
how many.
Arrays are handed on one by one and rows are never cut out: Numba would count references to them at every call.
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
"""Rows of `tree`: direction of a cut, its parts, the cut above, and in the first column of the last one the root."""
# All that ends up inside the entry points: an edit of either file must not leave old machine code in use.
ANNEALING_DIGEST = hashlib.blake2b(
    b"".join(Path(__file__).with_name(f"{n}.py").read_bytes() for n in ("annealing", "columns"))
)
HORIZONTAL_CUT = 1
INFEASIBLE = 16000

CompiledArray = Any
"""An array in compiled code."""


def compile_inlined(function: Any) -> Any:
    """Compile a function that only the search calls."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return njit(function, error_model="numpy", **options)


def compile_entry_point(signature: str) -> Callable[[Any], Any]:
    """Compile an entry point, or load it. It lets other threads run."""
    return kept(signature, identity=ANNEALING_DIGEST.hexdigest(), nogil=True)


@compile_inlined
def draw_random(random: CompiledArray, below: int) -> int:
    """A number from 0 to `below` - 1; xorshift, so that a seed means the same everywhere."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return int(np.int64((x >> np.uint64(11)) % np.uint64(below)))


@compile_inlined
def invert_curve(curves: CompiledArray, node: int, source: int, length: int, to: int, end: int) -> None:
    """The least width for each height, or the other way round, within a node's row."""
    rest = end
    for i in range(length):
        # Entries fall, so each place is written once, the last first.
        least = to + curves[node, source + i] - 1
        while rest > least:
            rest -= 1
            curves[node, rest] = i + 1
    for i in range(to, rest):
        curves[node, i] = INFEASIBLE


@compile_inlined
def combine_curves(tree: CompiledArray, curves: CompiledArray, node: int, room: int) -> None:
    """The curves of a cut, from those of its parts."""
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
    """The curves of a node and of all above it, until nothing changes. One in a new place always counts as changed."""
    last = len(kept_nodes) - 1
    while node >= 0:
        depth = kept_nodes[last]
        kept_nodes[depth] = node
        kept_nodes[last] = depth + 1
        for i in range(curves.shape[1]):
            kept[depth, i] = curves[node, i]
        combine_curves(tree, curves, node, room)
        # Without a branch, so that many entries are compared at once.
        differs = 0
        for i in range(curves.shape[1]):
            differs |= kept[depth, i] ^ curves[node, i]
        # What is above has nothing new to learn then; this is what most walks end with, far below the root.
        if differs == 0 and not is_new:
            return
        is_new = False
        node = tree[PARENT_ROW, node]


@compile_inlined
def copy_topology(source: CompiledArray, to: CompiledArray) -> None:
    """Keep a topology, or go back to it."""
    for row in range(TREE_ROWS):
        for i in range(source.shape[1]):
            to[row, i] = source[row, i]


@compile_inlined
def undo_change(
    tree: CompiledArray, old: CompiledArray, curves: CompiledArray, kept: CompiledArray, kept_nodes: CompiledArray
) -> None:
    """Go back to before the last change, last curve first: one may have been overwritten twice."""
    copy_topology(old, tree)
    for depth in range(kept_nodes[len(kept_nodes) - 1] - 1, -1, -1):
        node = kept_nodes[depth]
        for i in range(curves.shape[1]):
            curves[node, i] = kept[depth, i]


@compile_inlined
def replace_child(tree: CompiledArray, parent: int, old: int, new: int) -> None:
    """Put a node where another one hangs."""
    tree[PARENT_ROW, new] = parent
    if parent < 0:
        tree[ROOT_ROW, 0] = new
    elif tree[FIRST_ROW, parent] == old:
        tree[FIRST_ROW, parent] = new
    else:
        tree[SECOND_ROW, parent] = new


@compile_inlined
def sibling_node(tree: CompiledArray, node: int) -> int:
    """The other part of the cut that a node hangs on."""
    p = tree[PARENT_ROW, node]
    return int(tree[SECOND_ROW, p] if tree[FIRST_ROW, p] == node else tree[FIRST_ROW, p])


@compile_inlined
def is_ancestor(tree: CompiledArray, one: int, other: int) -> bool:
    """Whether `other` is part of `one`, or the same."""
    while other >= 0 and other != one:
        other = tree[PARENT_ROW, other]
    return bool(other == one)


@compile_inlined
def swap_children(tree: CompiledArray, node: int) -> None:
    """The parts of a cut change sides."""
    tree[FIRST_ROW, node], tree[SECOND_ROW, node] = tree[SECOND_ROW, node], tree[FIRST_ROW, node]


@compile_inlined
def exchange_nodes(tree: CompiledArray, one: int, other: int) -> bool:
    """Two nodes change places, if neither is part of the other."""
    if is_ancestor(tree, one, other) or is_ancestor(tree, other, one):
        return False
    p, q = tree[PARENT_ROW, one], tree[PARENT_ROW, other]
    if p == q:
        swap_children(tree, p)
        return True
    is_first = tree[FIRST_ROW, q] == other
    replace_child(tree, p, one, other)
    # `other` hangs on both for a moment, so its old place is asked for by side.
    tree[FIRST_ROW if is_first else SECOND_ROW, q] = one
    tree[PARENT_ROW, one] = q
    return True


@compile_inlined
def move_node(tree: CompiledArray, node: int, to: int, cut: int, is_first: bool) -> bool:
    """A node goes to another one, and takes the cut that it hung on along."""
    # Nothing can be hung below itself, and the whole mesh hangs nowhere.
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
    """Change the topology at random. False if what was drawn is not possible.

    `touched` are the nodes from which curves change, -1 for none, and whether the second is in a new place.
    """
    nodes = tree.shape[1]
    blocks = (nodes + 1) // 2
    # Mirrors leave all curves as they are: they are the cheapest change, and drawn often.
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
            # With the sibling of its parent: the tree leans over.
            p = tree[PARENT_ROW, one]
            if p < 0 or tree[PARENT_ROW, p] < 0:
                return False
            to = sibling_node(tree, p)
        touched[0], touched[1] = tree[PARENT_ROW, one], tree[PARENT_ROW, to]
        return bool(exchange_nodes(tree, one, to))
    if kind < 14 and len(ends):
        # Next to a block that it is wired to, or to what that is part of.
        wire, side = draw_random(random, len(ends)), draw_random(random, 2)
        one, to = ends[wire, side], ends[wire, 1 - side]
        for _ in range(draw_random(random, 3)):
            to = max(to, tree[PARENT_ROW, to])
    # Curves change where it came from, and where it went.
    p = tree[PARENT_ROW, one]
    if p >= 0:
        touched[0], touched[1], touched[2] = tree[PARENT_ROW, p], p, 1
    return bool(move_node(tree, one, to, draw_random(random, 2), draw_random(random, 2) == 0))


@compile_inlined
def push_part(stack: CompiledArray, at: int, node: int, x: int, y: int, width: int, height: int) -> None:
    """A node's part of the mesh, to be cut later."""
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
    """The doubled centres of all blocks."""
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
    """Rows or columns by which a tree is larger than the mesh, whichever are less; `INFEASIBLE` if it has no layout."""
    root = tree[ROOT_ROW, 0]
    # A tree that is too high is often only a little too wide, and the other way round: curves are staircases.
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
    """The doubled centres of all blocks, on the mesh or one that is as little larger as the tree asks for."""
    root = tree[ROOT_ROW, 0]
    # Beyond the mesh in one direction only, so that what lies in it keeps its distances.
    high, wide = curves[root, width - 1], curves[root, room + height - 1]
    if high - height <= wide - width:
        locate_blocks(tree, curves, centres, stack, room, width, max(high, height))
    else:
        locate_blocks(tree, curves, centres, stack, room, max(wide, width), height)


@compile_inlined
def doubled_wirelength(centres: CompiledArray, ends: CompiledArray, weights: CompiledArray) -> int:
    """The doubled length of all wires."""
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
    """The curves of all cuts, from those of the blocks, and the cost of the tree."""
    blocks = (tree.shape[1] + 1) // 2
    # From the root down into a list, which holds those to come and those that were there at its other end.
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
    """Try `changes` changes.

    `topologies` are that before a change and the best one. `state` holds the temperature, the factor by which it falls
    with each change, what a row beyond the mesh costs, the cost of the tree, and the least of one that fits.
    """
    old, best, touched = topologies[0], topologies[1], np.zeros(3, np.int64)
    last = len(kept_nodes) - 1
    copy_topology(tree, old)
    for _ in range(changes):
        # Falls with every change, and not in steps: then a round may be of any length.
        state[0] *= state[1]
        kept_nodes[last] = 0
        is_changed = apply_random_change(tree, ends, random, touched)
        if not is_changed:
            continue
        for k in range(2):
            if touched[k] >= 0:
                refresh_curves(tree, curves, kept, kept_nodes, touched[k], k == 1 and touched[2] == 1, room)
        # What may still be accepted is drawn first: most changes are too high for the mesh, and need no wires.
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
