"""Fusion groups: which nodes share a loop nest.

The first pass visits users before inputs. A node joins the group of its users if all of them read it in the same group
by the same index map; this cannot close a cycle, because every path from the node leads into that group. Otherwise the
node gets a new group and a buffer, unless it is cheap (see `scalar_bodies.is_cheap`) and needs no buffer for other
reasons; then each user computes it again.

The second pass merges a group with one that reads its values in the same order, or two groups that read the same value
in the same order, if no path through other calls runs between them. Source: our design; the two passes are known as
vertical and horizontal fusion.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from lazytensor.compiler.index_map import MOVEMENT_OPS, IndexMap, flat_access, identity, map_view_input
from lazytensor.compiler.kernel_calls import StoredValue, is_leaf, stored_value
from lazytensor.compiler.match import Matches
from lazytensor.compiler.reachability import CallNode, Reachability
from lazytensor.compiler.scalar_bodies import is_cheap, is_literal
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.nest import Access

PRODUCT_OPS = ("matmul", "conv")  # operations that are a separate layer on a wafer
MAX_MEMBERS = 96  # maximum number of nodes in one nest; bounds the compile time of a nest
MAX_OPERANDS = 16  # maximum operands of a merged nest; LLVM checks each pair for overlap before a vector loop


@dataclass(eq=False)
class FusionGroup:
    """A group of nodes that share a loop nest.

    - `domain`: the extents of the iteration domain.
    - `reduced`: the loops that are reductions.
    - `stores`: the nodes that it stores, with their index maps.
    - `members`: the nodes that it computes, with their index maps.
    - `loads`: the nodes that it loads, with their index maps.
    """

    domain: tuple[int, ...]
    reduced: tuple[int, ...]  # the loops that are reductions
    stores: list[tuple[Node, IndexMap]]
    members: set[tuple[Node, IndexMap]] = field(default_factory=set)
    # A dictionary, because its order is reproducible: how groups merge depends on it.
    loads: dict[tuple[Node, IndexMap], None] = field(default_factory=dict)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Return the extents of the loops. A dimension of extent 1 has no loop."""
        return tuple(e for e in self.domain if e != 1)

    @cached_property
    def in_order(self) -> Access:
        """Return the access that visits all elements of the domain in order."""
        return flat_access(identity(self.domain), len(self.extents))

    def covers(self, index: IndexMap) -> bool:
        """Return whether a map visits all elements of a value of the domain's size in order."""
        return flat_access(index, len(self.extents)) == self.in_order


class Grouping:
    """The result of the first pass, which `merge_groups` improves."""

    def __init__(self, graph: Graph, matches: Matches):
        self.matches = matches
        self.groups: list[FusionGroup] = []
        self.kernels: list[Node] = []
        self.home: dict[StoredValue, FusionGroup] = {}  # the group that stores a value of a fusible node
        self._demands: dict[Node, dict[tuple[FusionGroup, IndexMap], None]] = {}
        self._whole: set[Node] = set()  # needed in memory by a kernel
        self._roots = {stored_value(r)[0] for r in graph.roots()}
        nodes = graph.nodes()
        self.rank = {n: k for k, n in enumerate(nodes)}
        for r in graph.roots():
            self._require_stored(r, is_root=True)
        # Users are visited before their inputs, so all demands for a value are known when it is visited.
        for n in reversed(nodes):
            self._visit(n)

    def _require_stored(self, n: Node, is_root: bool = False) -> None:
        owner, _ = stored_value(n)
        if not is_root:
            self._whole.add(owner)
        self._demands.setdefault(owner, {})

    def _add_demand(self, n: Node, group: FusionGroup, index: IndexMap) -> None:
        self._demands.setdefault(n, {})[(group, index)] = None

    def _visit(self, n: Node) -> None:
        """Decide where node `n` is computed, given the demands of its users: stored, loaded, or inside its users'
        groups.

        A demand is a group with the index map by which it reads the node. A node without an entry in the demands is
        skipped.
        """
        if n not in self._demands:
            return
        demands = list(self._demands[n])
        if n.op == "reshape" and n not in self.matches:
            self._pass_on(n, demands)
        # An operation with several results is a kernel. It has no demands, but must be visited.
        elif n.op == "result":
            self._load(n, demands)
            self._demands.setdefault(n.inputs[0], {})
        elif n in self.matches:
            self.kernels.append(n)
            self._load(n, demands)
            for operand in self.matches[n][1].operands:
                self._require_stored(operand)
        elif is_literal(n) or n.op == "arange":
            # A literal needs no buffer, unless a kernel or the step needs it as an array. The planner makes buffers
            # for constants.
            if n.op != "const" and (n in self._whole or n in self._roots):
                self._store(n)
        elif is_leaf(n):
            self._load(n, demands)
        elif n.op in MOVEMENT_OPS:
            self._move(n, demands)
        # A reduction never joins its user, which would repeat the sum for every element.
        elif n.op == "reduce":
            self._load(n, demands)
            self._store(n)
        else:
            self._compute(n, demands)

    def _load(self, n: Node, demands: Iterable[tuple[FusionGroup, IndexMap]]) -> None:
        for group, index in demands:
            group.loads[n, index] = None

    def _pass_on(self, n: Node, demands: Iterable[tuple[FusionGroup, IndexMap]]) -> list[tuple[FusionGroup, IndexMap]]:
        """Pass demands, pairs (group, index map), for a view on to its input; return those for which the index is
        not affine.
        """
        failed = []
        for group, index in demands:
            pushed = map_view_input(n, index, len(group.extents))
            if pushed is None:
                failed.append((group, index))
            else:
                group.members.add((n, index))
                self._add_demand(n.inputs[0], group, pushed)
        return failed

    def _move(self, n: Node, demands: list[tuple[FusionGroup, IndexMap]]) -> None:
        """Pass demands (a group with an index map) for a view on to its input.

        Store the view's elements in a new group if a demand is not affine, or if a kernel or the step needs them in
        memory.
        """
        failed = self._pass_on(n, demands)
        # The remaining demands read a stored copy of the moved elements.
        if failed or n in self._whole or n in self._roots:
            self._load(n, failed)
            self._store(n)

    def _compute(self, n: Node, demands: list[tuple[FusionGroup, IndexMap]]) -> None:
        """Place a pointwise node: in the group of its only demand, in each user's group if it is cheap, else in a new
        group.

        A node that a kernel reads gets a new group and a buffer. A result of the step is also stored by its user's
        group, or gets a new one.
        """
        # With one demand, the node is computed once, in that group. A root is also stored there.
        if len(demands) == 1 and n not in self._whole and self._fits(n, *demands[0]):
            group, index = demands[0]
            self._add_member(n, group, index)
            if n in self._roots:
                group.stores.append((n, index))
                self.home[(n, 0)] = group
            return
        # It is cheaper to compute this in each group than to store and load it.
        if is_cheap(n) and n not in self._whole and n not in self._roots:
            for group, index in demands:
                self._add_member(n, group, index)
            return
        self._load(n, demands)
        self._store(n)

    def _fits(self, n: Node, group: FusionGroup, index: IndexMap) -> bool:
        """Return whether the group evaluates `n` at most once per element, and in order if `n` has to be stored.

        Return False for a group with MAX_MEMBERS nodes.
        """
        if len(group.members) >= MAX_MEMBERS:
            return False
        size = _size(group.extents)
        # The size is compared too: the map of a leading slice is also in order, but does not cover the value.
        return size == n.type.size and group.covers(index) if n in self._roots else size <= n.type.size

    def _add_member(self, n: Node, group: FusionGroup, index: IndexMap) -> None:
        group.members.add((n, index))
        for i in n.inputs:
            self._add_demand(i, group, index)

    def _store(self, n: Node) -> None:
        """Give a node a new group that computes and stores it. Raise CompileError for a view whose index is not
        affine.
        """
        # The domain of a reduction is its input's shape, otherwise the result's. Extents of 1 need no loop.
        source = n.inputs[0].type.shape if n.op == "reduce" else n.type.shape
        domain = tuple(e for e in source if e != 1)
        reduced = tuple(d for d in n.attrs["dims"] if source[d] != 1) if n.op == "reduce" else ()
        wide = [d for d, e in enumerate(source) if e != 1]
        group = FusionGroup(domain, tuple(wide.index(d) for d in reduced), [])
        index = identity(source)
        if n.op == "reduce":
            # The index of the result leaves out the reduction loops.
            group.stores.append((n, tuple(g for k, g in enumerate(index) if k not in group.reduced)))
            self._add_demand(n.inputs[0], group, index)
        elif n.op in MOVEMENT_OPS:
            group.stores.append((n, index))
            group.members.add((n, index))
            pushed = map_view_input(n, index, len(domain))
            if pushed is None:
                raise CompileError(
                    f"{n.op} has no affine index",
                    where=n.where,
                    hint="Report it as a bug of the compiler, with the output of LT_DEBUG=2.",
                )
            self._add_demand(n.inputs[0], group, pushed)
        else:
            group.stores.append((n, index))
            self._add_member(n, group, index)
        self.groups.append(group)
        self.home[(n, 0)] = group


def _size(extents: Iterable[int]) -> int:
    size = 1
    for e in extents:
        size *= e
    return size


def merge_groups(grouping: Grouping, keeps_layers: bool = False) -> None:
    """Run the second pass, which merges groups of `grouping` in place into fewer, larger ones.

    With `keeps_layers`, two groups that each wait for a different matrix product are not merged, unless one of them
    waits for both products anyway. On a wafer each product is a layer, and the operations that follow it are computed
    with it: two towers that share a mask would otherwise wait for each other.
    """
    units = _MergeGraph(grouping, keeps_layers)
    # A stack: the last pairs are tried first.
    pending = list(units.candidates())
    while pending:
        first, second = (units.current(g) for g in pending.pop())
        if first is not second and units.may_merge(first, second):
            units.merge(first, second)
    grouping.groups = [g for g in grouping.groups if g not in units.moved]


class _MergeGraph:
    """Groups and kernel calls with the edges between them, updated while groups merge."""

    def __init__(self, grouping: Grouping, keeps_layers: bool):
        self.grouping, self.keeps_layers = grouping, keeps_layers
        self.moved: dict[FusionGroup, FusionGroup] = {}
        rank = grouping.rank
        ranks: dict[CallNode, int] = {n: rank[n] for n in grouping.kernels}
        ranks |= {group: min(rank[n] for n, _ in group.stores) for group in grouping.groups}
        self.paths = Reachability(self._edges(), ranks, lambda call: not isinstance(call, FusionGroup))

    def _edges(self) -> Iterable[tuple[CallNode, CallNode]]:
        home = self.grouping.home
        for group in self.grouping.groups:
            for n, _ in group.loads:
                value = stored_value(n)
                yield home.get(value, value[0]), group
        for n in self.grouping.kernels:
            for operand in self.grouping.matches[n][1].operands:
                value = stored_value(operand)
                yield home.get(value, value[0]), n

    def current(self, group: FusionGroup) -> FusionGroup:
        # Follow chains of merges.
        while group in self.moved:
            group = self.moved[group]
        return group

    def candidates(self) -> Iterable[tuple[FusionGroup, FusionGroup]]:
        """Return pairs of groups of which both load a value, or one loads what the other stores, in the order of the
        iterations.

        Pairs in which one group makes the value come last, because the caller takes pairs from the end.
        """
        readers: dict[StoredValue, list[FusionGroup]] = {}
        direct = []
        for group in self.grouping.groups:
            for n, index in group.loads:
                if not group.covers(index):
                    continue
                value = stored_value(n)
                if value in self.grouping.home:
                    direct.append((self.grouping.home[value], group))
                readers.setdefault(value, []).append(group)
        # Neighbouring pairs are enough: merging a with b and b with c joins all three.
        siblings = [(a, b) for groups in readers.values() for a, b in pairwise(groups)]
        return [*siblings, *direct]

    def may_merge(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Return whether groups `a` and `b` can share a nest.

        Their loops must have equal extents, and equal reductions if both have any. The merged nest must be within the
        size limits, and with `keeps_layers` not join two layers. Neither group may read elements of the other from
        another iteration, and no path through other calls may connect them.
        """
        # Two reductions share loops only if they reduce the same ones. A group without reductions adopts the other's.
        if a.extents != b.extents or (a.reduced and b.reduced and a.reduced != b.reduced):
            return False
        if len(a.members) + len(b.members) > MAX_MEMBERS:
            return False
        if self.keeps_layers and self._joins_layers(a, b):
            return False
        # A value that one group makes and the other reads counts once.
        operands = {stored_value(n) for g in (a, b) for n, _ in (*g.loads, *g.stores)}
        if len(operands) > MAX_OPERANDS:
            return False
        if not (self._reads_in_order(a, b) and self._reads_in_order(b, a)):
            return False
        return not self.paths.has_detour(a, b) and not self.paths.has_detour(b, a)

    def _joins_layers(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Return whether both groups read results of matrix products or convolutions, none in common, and neither
        waits for the other's.
        """
        one, other = (
            {n for n, _ in group.loads if n.op in PRODUCT_OPS and n in self.grouping.matches} for group in (a, b)
        )
        if not one or not other or one & other:
            return False
        return not (self._waits_for(b, one) or self._waits_for(a, other))

    def _waits_for(self, group: FusionGroup, nodes: set[Node]) -> bool:
        """Return whether a group's stored values depend on any of the nodes."""
        rank = self.grouping.rank
        first = min(rank[n] for n in nodes)
        seen = {n for n, _ in group.stores}
        rest = list(seen)
        while rest:
            n = rest.pop()
            if n in nodes:
                return True
            before = {i for i in n.inputs if rank[i] >= first} - seen
            seen |= before
            rest += before
        return False

    def _reads_in_order(self, maker: FusionGroup, user: FusionGroup) -> bool:
        """Return whether `user` reads from `maker` only elements of the same iteration, and no reduction; True if it
        reads nothing.
        """
        # A sum is complete only after its loops, so it cannot be read inside them.
        stored = {(n, 0): index for n, index in maker.stores if n.op != "reduce"}
        for n, index in user.loads:
            value = stored_value(n)
            if self.grouping.home.get(value) is not maker:
                continue
            if value not in stored or not (user.covers(index) and maker.covers(stored[value])):
                return False
        return True

    def merge(self, a: FusionGroup, b: FusionGroup) -> None:
        """Merge group `b` into `a`, which is modified: `a` gets all stores, members and loads, except loads of what it
        computes.

        `current(b)` is `a` from then on.
        """
        a.reduced = a.reduced or b.reduced
        a.stores += b.stores
        a.members |= b.members
        # A value that the merged group computes is a scalar of its body, not a load.
        own = {(n, 0) for n, _ in a.stores}
        a.loads = {(n, i): None for n, i in (*a.loads, *b.loads) if stored_value(n) not in own}
        for n, _ in b.stores:
            self.grouping.home[(n, 0)] = a
        self.paths.merge(a, b)
        self.moved[b] = a
