"""The order in which blocks are handed to a slicing tree: neighbours in the graph come close to each other in it."""

from collections.abc import Sequence


def order_blocks(count: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Blocks 0 to `count` - 1 so that each comes after those it reads, as soon after the last of them as it can.

    Blocks on a cycle of edges come in their own order.
    """
    readers: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in edges:
        if a != b:
            readers[a].append(b)
            waits[b] += 1
    # A stack, so that a chain is followed to its end before the next one begins.
    ready = [n for n in reversed(range(count)) if not waits[n]]
    rest = dict.fromkeys(range(count))
    order: list[int] = []
    while rest:
        n = ready.pop() if ready else next(iter(rest))
        # Taken from a cycle before its turn came.
        if n not in rest:
            continue
        del rest[n]
        order.append(n)
        for b in reversed(readers[n]):
            waits[b] -= 1
            if not waits[b]:
                ready.append(b)
    return tuple(order)
