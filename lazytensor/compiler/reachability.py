"""Reachability between calls while fusion groups merge.

Groups merge; kernel calls do not. So for one long chain of kernel calls it is fixed how early each call enters the
chain, and how late the chain reaches each call: if the entry comes before the exit, a path runs through the chain. In a
training step the chain runs forward through all layers and back, and answers most queries without a graph search.
"""

from collections.abc import Callable, Iterable

CallNode = object
"""A fusion group, a node that is a kernel call, or a leaf that they read."""


class Reachability:
    """A graph of calls with edges from the maker of a value to its readers.

    - `edges`: pairs (maker, reader).
    - `ranks`: for each call, the position in the graph of the first value that it computes.
    - `stays`: returns whether a call will never merge (a kernel call).
    """

    def __init__(
        self, edges: Iterable[tuple[CallNode, CallNode]], ranks: dict[CallNode, int], stays: Callable[[CallNode], bool]
    ):
        # Invariant: a call's rank is at most that of its readers, so a path never leads to a lower rank. A merged call
        # gets the lower of the two ranks, and `merge` then lowers its predecessors.
        self.rank = dict(ranks)
        # Dictionaries, because the order of sets of objects differs from run to run.
        self.after: dict[CallNode, dict[CallNode, None]] = {call: {} for call in ranks}
        self.before: dict[CallNode, dict[CallNode, None]] = {call: {} for call in ranks}
        for maker, reader in edges:
            # A leaf has no maker, so no path leads through it.
            if maker in ranks and maker is not reader:
                self.after[maker][reader] = None
                self.before[reader][maker] = None
        order = self._in_order()
        # The rank of a group is that of its first value; make it at most that of all readers.
        for call in reversed(order):
            self.rank[call] = min([self.rank[call], *(self.rank[reader] for reader in self.after[call])])
        chain = self._chain(order, stays)
        self._enters = self._nearest_on_chain(reversed(order), chain, self.after, min, len(chain))
        self._leaves = self._nearest_on_chain(order, chain, self.before, max, -1)

    def has_detour(self, start: CallNode, goal: CallNode) -> bool:
        """Return whether a path leads from `start` to `goal` through other calls, so that merging them would close a
        cycle.

        An edge between the two does not count.
        """
        if self.rank[start] > self.rank[goal]:
            return False
        return self._enters[start] <= self._leaves[goal] or self._has_path(start, goal)

    def merge(self, a: CallNode, b: CallNode) -> None:
        """Merge call `b` into call `a`: `a` gets all edges of `b`, and `b` is removed from the graph.

        The ranks of calls before `a` are lowered to that of `a`.
        """
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
        """Return whether a path of at least two edges leads from `start` to `goal`, by a search among calls of fitting
        rank.
        """
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
        """Return all calls in topological order, makers before readers."""
        left = {call: len(makers) for call, makers in self.before.items()}
        order = [call for call, n in left.items() if not n]
        # The list grows during the iteration.
        for call in order:
            for reader in self.after[call]:
                left[reader] -= 1
                if not left[reader]:
                    order.append(reader)
        return order

    def _chain(self, order: list[CallNode], stays: Callable[[CallNode], bool]) -> dict[CallNode, int]:
        """Return {call: number} of the calls that never merge, on the path with the most of them, from makers to
        readers.
        """
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
        """Return for each call the nearest position in the chain that it reaches along `edges`, or `nothing`.

        `order` has the calls so that those that `edges` lead to come first, and `nearer` is `min` or `max`. A call in
        the chain reaches itself.
        """
        place: dict[CallNode, int] = {}
        for call in order:
            own = chain.get(call, nothing)
            place[call] = nearer([own, *(place[end] for end in edges[call])])
        return place
