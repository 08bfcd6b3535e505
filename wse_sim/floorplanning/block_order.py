"""Order the blocks of a graph so that connected blocks are close to each other."""

from collections.abc import Sequence


def order_blocks(count: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the blocks 0 to `count` - 1 in a topological order that follows chains of `edges` (source, target).

    Each block comes after all blocks with an edge to it, as soon after the last of them as possible. If the remaining
    blocks are on cycles or depend on them, the one with the lowest number is next. Edges from a block to itself are
    ignored.
    """
    readers: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in edges:
        if a != b:
            readers[a].append(b)
            waits[b] += 1
    # Use a stack, so that a chain is followed to its end before the next one begins.
    ready = [n for n in reversed(range(count)) if not waits[n]]
    rest = dict.fromkeys(range(count))
    order: list[int] = []
    while rest:
        n = ready.pop() if ready else next(iter(rest))
        # The block was already taken out of a cycle.
        if n not in rest:
            continue
        del rest[n]
        order.append(n)
        for b in reversed(readers[n]):
            waits[b] -= 1
            if not waits[b]:
                ready.append(b)
    return tuple(order)
