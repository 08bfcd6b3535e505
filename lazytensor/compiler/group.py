"""Groups: which nodes share a loop nest, before the nest is written down.

The first pass goes from users to inputs. A node joins the group of its user when all its users read it in the same
group by the same index map; this can never close a cycle, because every path out of the node leads into that group.
Otherwise it gets a group and a buffer of its own, unless it is cheap (see `scalar_bodies.is_cheap`) and needs no
buffer for other reasons; then each user computes it anew.

The second pass merges a group into one that reads its values in the same order, or two groups that read the same value
in the same order, wherever no path through other calls runs between them.
Source: own; the two passes are known as vertical and horizontal fusion.
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

PRODUCT_OPS = ("matmul", "conv")  # operations with a layer of their own on a wafer
MAX_MEMBERS = 96  # nodes computed in one nest; bounds the compile time of a nest
MAX_OPERANDS = 16  # of a merged nest; LLVM checks each pair of arrays for overlap before a vector loop


@dataclass(eq=False)
class FusionGroup:
    """Loops over `domain`, the nodes computed in them with their maps, and the nodes it stores."""

    domain: tuple[int, ...]
    reduced: tuple[int, ...]  # the loops that are reductions
    stores: list[tuple[Node, IndexMap]]
    members: set[tuple[Node, IndexMap]] = field(default_factory=set)
    # A dictionary for its order: which groups are tried first, and so how they merge, must not differ from run to run.
    loads: dict[tuple[Node, IndexMap], None] = field(default_factory=dict)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The extents of its loops; one that runs once is none."""
        return tuple(e for e in self.domain if e != 1)

    @cached_property
    def in_order(self) -> Access:
        """The access that runs through all elements in order."""
        return flat_access(identity(self.domain), len(self.extents))

    def covers(self, index: IndexMap) -> bool:
        """True if the map runs through a value of the domain's size in order."""
        return flat_access(index, len(self.extents)) == self.in_order


class Grouping:
    """The result of the first pass, which `merge_groups` then improves."""

    def __init__(self, graph: Graph, matches: Matches):
        self.matches = matches
        self.groups: list[FusionGroup] = []
        self.kernels: list[Node] = []
        self.home: dict[StoredValue, FusionGroup] = {}  # where a stored value of a fusible node comes from
        self._demands: dict[Node, dict[tuple[FusionGroup, IndexMap], None]] = {}
        self._whole: set[Node] = set()  # needed in memory by a kernel
        self._roots = {stored_value(r)[0] for r in graph.roots()}
        nodes = graph.nodes()
        self.rank = {n: k for k, n in enumerate(nodes)}
        for r in graph.roots():
            self._require_stored(r, is_root=True)
        # Users come before their inputs here, so every demand for a value is there when the value is visited.
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
        if n not in self._demands:
            return
        demands = list(self._demands[n])
        if n.op == "reshape" and n not in self.matches:
            self._pass_on(n, demands)
        # The node that gives several results is a kernel: it has no demands of its own, and must be visited all the
        # same.
        elif n.op == "result":
            self._load(n, demands)
            self._demands.setdefault(n.inputs[0], {})
        elif n in self.matches:
            self.kernels.append(n)
            self._load(n, demands)
            for operand in self.matches[n][1].operands:
                self._require_stored(operand)
        elif is_literal(n) or n.op == "arange":
            # A number in the text needs no buffer, unless a kernel or the step itself wants it as an array; the planner
            # gives constants theirs.
            if n.op != "const" and (n in self._whole or n in self._roots):
                self._store(n)
        elif is_leaf(n):
            self._load(n, demands)
        elif n.op in MOVEMENT_OPS:
            self._move(n, demands)
        # A reduction never joins its user: that would sum anew for every element that the user computes.
        elif n.op == "reduce":
            self._load(n, demands)
            self._store(n)
        else:
            self._compute(n, demands)

    def _load(self, n: Node, demands: Iterable[tuple[FusionGroup, IndexMap]]) -> None:
        for group, index in demands:
            group.loads[n, index] = None

    def _pass_on(self, n: Node, demands: Iterable[tuple[FusionGroup, IndexMap]]) -> list[tuple[FusionGroup, IndexMap]]:
        """Hand demands through a view to its input; the result lists those for which that is not affine."""
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
        failed = self._pass_on(n, demands)
        # What could pass through has passed; the rest reads a copy of the moved elements.
        if failed or n in self._whole or n in self._roots:
            self._load(n, failed)
            self._store(n)

    def _compute(self, n: Node, demands: list[tuple[FusionGroup, IndexMap]]) -> None:
        # One demand is one group with one map: computing it there costs nothing twice. A root is stored on the way.
        if len(demands) == 1 and n not in self._whole and self._fits(n, *demands[0]):
            group, index = demands[0]
            self._add_member(n, group, index)
            if n in self._roots:
                group.stores.append((n, index))
                self.home[(n, 0)] = group
            return
        # Cheaper to compute in each group than to write once and read back.
        if is_cheap(n) and n not in self._whole and n not in self._roots:
            for group, index in demands:
                self._add_member(n, group, index)
            return
        self._load(n, demands)
        self._store(n)

    def _fits(self, n: Node, group: FusionGroup, index: IndexMap) -> bool:
        """True if the group evaluates n once for each element, in order where it also has to store it."""
        if len(group.members) >= MAX_MEMBERS:
            return False
        size = _size(group.extents)
        # The map of a slice at the beginning runs in order too, but not through all that has to be stored.
        return size == n.type.size and group.covers(index) if n in self._roots else size <= n.type.size

    def _add_member(self, n: Node, group: FusionGroup, index: IndexMap) -> None:
        group.members.add((n, index))
        for i in n.inputs:
            self._add_demand(i, group, index)

    def _store(self, n: Node) -> None:
        """Give a node its own group and buffer."""
        # The loops of a reduction run over what is reduced, all others over the result. Extents of 1 need no loop.
        source = n.inputs[0].type.shape if n.op == "reduce" else n.type.shape
        domain = tuple(e for e in source if e != 1)
        reduced = tuple(d for d in n.attrs["dims"] if source[d] != 1) if n.op == "reduce" else ()
        wide = [d for d, e in enumerate(source) if e != 1]
        group = FusionGroup(domain, tuple(wide.index(d) for d in reduced), [])
        index = identity(source)
        if n.op == "reduce":
            # The result is addressed without the loops that are summed over.
            group.stores.append((n, tuple(g for k, g in enumerate(index) if k not in group.reduced)))
            self._add_demand(n.inputs[0], group, index)
        elif n.op in MOVEMENT_OPS:
            group.stores.append((n, index))
            group.members.add((n, index))
            pushed = map_view_input(n, index, len(domain))
            if pushed is None:
                raise CompileError(f"{n.op} has no affine index", where=n.where)
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
    """The second pass: fewer, larger groups; with `keeps_layers` none of two that wait for a product each.

    On a wafer products lie in layers of their own, and what is computed behind them does so with them: two towers that
    share a mask would wait for each other. What waits for both anyway may come together.
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
    """Groups and kernel calls with the edges between them, kept up to date while groups merge."""

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
        # Chains of merges: the group that was merged into may have been merged itself since.
        while group in self.moved:
            group = self.moved[group]
        return group

    def candidates(self) -> Iterable[tuple[FusionGroup, FusionGroup]]:
        """Pairs that share a value in the same order; those where one makes it come last, so they are taken first."""
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
        # Neighbours are enough: merging a with b and b with c brings all three together.
        siblings = [(a, b) for groups in readers.values() for a, b in pairwise(groups)]
        return [*siblings, *direct]

    def may_merge(self, a: FusionGroup, b: FusionGroup) -> bool:
        # Two reductions share loops only if they sum over the same ones; a plain group takes over those of the other.
        if a.extents != b.extents or (a.reduced and b.reduced and a.reduced != b.reduced):
            return False
        if len(a.members) + len(b.members) > MAX_MEMBERS:
            return False
        if self.keeps_layers and self._joins_layers(a, b):
            return False
        # A value that one makes and the other reads counts once, and is not read at all after the merge.
        operands = {stored_value(n) for g in (a, b) for n, _ in (*g.loads, *g.stores)}
        if len(operands) > MAX_OPERANDS:
            return False
        if not (self._reads_in_order(a, b) and self._reads_in_order(b, a)):
            return False
        return not self.paths.has_detour(a, b) and not self.paths.has_detour(b, a)

    def _joins_layers(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Whether both read products, and each waits for its own alone."""
        one, other = (
            {n for n, _ in group.loads if n.op in PRODUCT_OPS and n in self.grouping.matches} for group in (a, b)
        )
        if not one or not other or one & other:
            return False
        return not (self._waits_for(b, one) or self._waits_for(a, other))

    def _waits_for(self, group: FusionGroup, nodes: set[Node]) -> bool:
        """Whether any of the nodes is among all that a group is made of."""
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
        """True if `user` needs from `maker` only the elements of the same iteration."""
        # A sum is complete only after its loops, so nobody in the same loops may read it.
        stored = {(n, 0): index for n, index in maker.stores if n.op != "reduce"}
        for n, index in user.loads:
            value = stored_value(n)
            if self.grouping.home.get(value) is not maker:
                continue
            if value not in stored or not (user.covers(index) and maker.covers(stored[value])):
                return False
        return True

    def merge(self, a: FusionGroup, b: FusionGroup) -> None:
        """Move b into a."""
        a.reduced = a.reduced or b.reduced
        a.stores += b.stores
        a.members |= b.members
        # What the merged group makes itself is a scalar of its body now, no load.
        own = {(n, 0) for n, _ in a.stores}
        a.loads = {(n, i): None for n, i in (*a.loads, *b.loads) if stored_value(n) not in own}
        for n, _ in b.stores:
            self.grouping.home[(n, 0)] = a
        self.paths.merge(a, b)
        self.moved[b] = a
