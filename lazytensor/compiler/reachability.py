"""Paths: which calls lead to which while groups merge, asked for each pair of groups that might.

Groups merge and kernel calls never do. So of one long chain of kernels it is known for good how early each call comes
into it and how late it still comes out of it: where that is in order, a path leads over the chain. In a training step
the chain goes forward through all layers and back, and answers nearly all that a search would have to walk the net for.
"""

from collections.abc import Callable, Iterable

CallNode = object
"""A group, a node that is a kernel call, or a leaf that they read."""


class Reachability:
    """Edges between calls, from the maker of a value to its readers.

    `ranks` are those of the first value that each call gives, before its readers. `stays` tells the calls that will not
    merge.
    """

    def __init__(
        self, edges: Iterable[tuple[CallNode, CallNode]], ranks: dict[CallNode, int], stays: Callable[[CallNode], bool]
    ):
        # A call has no higher rank than what it leads to, so no path leads to a lower one. A merged call has the lower
        # of two ranks, and `merge` lowers what leads to it: by way of that call it comes before all behind either.
        self.rank = dict(ranks)
        # Dictionaries for their order: sets of objects differ from run to run.
        self.after: dict[CallNode, dict[CallNode, None]] = {call: {} for call in ranks}
        self.before: dict[CallNode, dict[CallNode, None]] = {call: {} for call in ranks}
        for maker, reader in edges:
            # A leaf has no maker, and no path leads through it.
            if maker in ranks and maker is not reader:
                self.after[maker][reader] = None
                self.before[reader][maker] = None
        order = self._in_order()
        # A group of several values has the rank of the first, which may be lower than that of what another one reads.
        for call in reversed(order):
            self.rank[call] = min([self.rank[call], *(self.rank[reader] for reader in self.after[call])])
        chain = self._chain(order, stays)
        self._enters = self._nearest_on_chain(reversed(order), chain, self.after, min, len(chain))
        self._leaves = self._nearest_on_chain(order, chain, self.before, max, -1)

    def has_detour(self, start: CallNode, goal: CallNode) -> bool:
        """Return whether a path leads from `start` to `goal` by way of other calls, so that a merge closes a cycle."""
        if self.rank[start] > self.rank[goal]:
            return False
        return self._enters[start] <= self._leaves[goal] or self._has_path(start, goal)

    def merge(self, a: CallNode, b: CallNode) -> None:
        """Let group `a` stand for `b` too."""
        self.rank[a] = min(self.rank[a], self.rank[b])
        self._enters[a] = min(self._enters[a], self._enters[b])
        self._leaves[a] = max(self._leaves[a], self._leaves[b])
        for edges, back in ((self.after, self.before), (self.before, self.after)):
            ends = edges.pop(b)
            edges[a] |= ends
            for end in ends:
                back[end].pop(b, None)
                back[end][a] = None
        for edges in (self.after, self.before):
            edges[a].pop(a, None)
            edges[a].pop(b, None)
        lowered = [a]
        while lowered:
            call = lowered.pop()
            for maker in self.before[call]:
                if self.rank[maker] > self.rank[call]:
                    self.rank[maker] = self.rank[call]
                    lowered.append(maker)

    def _has_path(self, start: CallNode, goal: CallNode) -> bool:
        rank, most = self.rank, self.rank[goal]
        stack = [u for u in self.after[start] if u is not goal and rank[u] <= most]
        seen = set(stack)
        while stack:
            for u in self.after[stack.pop()]:
                if u is goal:
                    return True
                if u not in seen and rank[u] <= most:
                    seen.add(u)
                    stack.append(u)
        return False

    def _in_order(self) -> list[CallNode]:
        """All calls, readers after makers."""
        left = {call: len(makers) for call, makers in self.before.items()}
        order = [call for call, n in left.items() if not n]
        # The list grows while it is walked.
        for call in order:
            for reader in self.after[call]:
                left[reader] -= 1
                if not left[reader]:
                    order.append(reader)
        return order

    def _chain(self, order: list[CallNode], stays: Callable[[CallNode], bool]) -> dict[CallNode, int]:
        """The calls that stay of a path that has most of them, numbered in its order."""
        length: dict[CallNode, int] = {}
        maker_of: dict[CallNode, CallNode | None] = {}
        for call in order:
            maker = max(self.before[call], key=length.__getitem__, default=None)
            length[call] = (length[maker] if maker is not None else 0) + stays(call)
            maker_of[call] = maker
        call = max(order, key=length.__getitem__, default=None)
        path = []
        while call is not None:
            path.append(call)
            call = maker_of[call]
        return {call: k for k, call in enumerate(c for c in reversed(path) if stays(c))}

    def _nearest_on_chain(
        self,
        order: Iterable[CallNode],
        chain: dict[CallNode, int],
        edges: dict[CallNode, dict[CallNode, None]],
        nearer: Callable[[Iterable[int]], int],
        nothing: int,
    ) -> dict[CallNode, int]:
        """The place in the chain that each call comes to along `edges`."""
        place: dict[CallNode, int] = {}
        for call in order:
            own = chain.get(call, nothing)
            place[call] = nearer([own, *(place[end] for end in edges[call])])
        return place
