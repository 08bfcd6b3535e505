"""Fusion: groups of nodes without a library kernel become loop nests, and the graph becomes a list of calls.

Broadcasts, transposes, slices and reshapes inside a group cost nothing: they only change the index at which a value is
read. Constants become literals. A value that a group both stores and uses is computed once.
"""

from typing import Any

from lazytensor.compiler.group import FusionGroup, Grouping, merge_groups
from lazytensor.compiler.index_map import MOVEMENT_OPS, IndexMap, flat_access, identity, map_view_input
from lazytensor.compiler.kernel_calls import KernelCall, StoredValue, is_leaf, stored_type, stored_value
from lazytensor.compiler.match import Matches
from lazytensor.compiler.scalar_bodies import is_literal
from lazytensor.core.dtype import float64, int64
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.types import Work
from lazytensor.ops.op import OPS


def fuse(graph: Graph, matches: Matches, keeps_layers: bool = False) -> list[KernelCall]:
    """Return all calls of the graph: first the loop nests, then the library kernels, but not in an order of execution.

    `keeps_layers` is as in `group.merge_groups`. Equal nests are one object.
    """
    grouping = Grouping(graph, matches)
    merge_groups(grouping, keeps_layers)
    calls = [_NestEmitter(group, grouping).call() for group in grouping.groups]
    # Equal layers have equal nests: share one object, so that caches by identity hit for all of them.
    nests: dict[tuple[Any, ...], Nest] = {}
    for call in calls:
        assert call.nest is not None, "a group is written as a nest"
        call.nest = nests.setdefault(call.nest.key, call.nest)
    return calls + [_kernel_call(n, matches) for n in grouping.kernels]


def _kernel_call(n: Node, matches: Matches) -> KernelCall:
    """Return the call of the library kernel that computes a node. Raise KeyError for a node that is not in
    `matches`.
    """
    kernel, match = matches[n]
    types = n.type if isinstance(n.type, tuple) else (n.type,)
    results = tuple((n, k) for k in range(len(types)))
    work = kernel.work(match.attrs, types, tuple(i.type for i in match.operands))
    return KernelCall(
        kernel.name, operands=match.operands, results=results, attrs=match.attrs, work=work, where=n.where
    )


class _NestEmitter:
    """Writes one fusion group as a loop nest."""

    def __init__(self, group: FusionGroup, grouping: Grouping):
        self.group, self.home, self.matches = group, grouping.home, grouping.matches
        self.loops = tuple(Loop(f"i{k}", e, is_reduction=k in group.reduced) for k, e in enumerate(group.extents))
        self.body: list[Scalar] = []
        self.values: dict[tuple[Node, IndexMap], int] = {}
        self.numbers: dict[tuple[Any, ...], int] = {}  # index in the body of each scalar, by its content
        self.operands: dict[tuple[StoredValue, Access], tuple[int, Node]] = {}
        self.names: list[str] = []
        self.flops = 0

    def call(self) -> KernelCall:
        """Return the group as a call of its nest, with the loaded nodes as operands and the stored ones as results.

        Call it once.
        """
        stores, writes = [], []
        for k, (n, index) in enumerate(self.group.stores):
            kind = ""
            if n.op == "reduce":
                value = self.value(n.inputs[0], identity(n.inputs[0].type.shape))
                # Dimensions of extent 1 have no loop, so there is nothing to accumulate.
                folds = any(n.inputs[0].type.shape[d] != 1 for d in n.attrs["dims"])
                kind = n.attrs["kind"] if folds else ""
                self._count(n)
            else:
                value = self.value(n, index, is_store=True)
            stores.append(NestStore(k, value, kind))
            writes.append(flat_access(index, len(self.loops)))
        results = tuple((n, 0) for n, _ in self.group.stores)
        nest = self._nest(results, tuple(writes), tuple(stores))
        main = self.group.stores[0][0]
        operands = tuple(n for _, n in self.operands.values())
        return KernelCall("nest", operands=operands, results=results, nest=nest, work=nest.work, where=main.where)

    def _nest(
        self, results: tuple[StoredValue, ...], writes: tuple[Access, ...], stores: tuple[NestStore, ...]
    ) -> Nest:
        """Return the nest of the scalars and operands collected so far.

        Its name lists the operations, up to 48 characters.
        """
        inputs = tuple(stored_type(v) for v, _ in self.operands)
        outputs = tuple(stored_type(v) for v in results)
        read = sum(stored_type(v).nbytes for v in {v for v, _ in self.operands})
        work = Work(self.flops, read, sum(t.nbytes for t in outputs))
        # Reports and profiles show only this name, so it lists the operations in order.
        name = "_".join(dict.fromkeys(self.names)) or "copy"
        return Nest(
            name=name[:48],
            loops=self.loops,
            inputs=inputs,
            outputs=outputs,
            reads=tuple(access for _, access in self.operands),
            writes=writes,
            body=tuple(self.body),
            stores=stores,
            work=work,
        )

    def _count(self, n: Node) -> None:
        self.names.append(n.op if n.op != "reduce" else f"reduce_{n.attrs['kind']}")
        self.flops += OPS[n.op].work(n.type, *(i.type for i in n.inputs), **n.attrs).flops

    def _scalar(self, scalar: Scalar) -> int:
        """Return the number of a scalar in the body, adding it unless an equal one exists."""
        # Literals are compared by their text, because 0.0 == -0.0 but they are different constants.
        attr = tuple(scalar.attr.items()) if isinstance(scalar.attr, dict) else repr(scalar.attr)
        key = (scalar.op, scalar.dtype, scalar.args, attr)
        if key not in self.numbers:
            self.numbers[key] = len(self.body)
            self.body.append(scalar)
        return self.numbers[key]

    def value(self, n: Node, index: IndexMap, is_store: bool = False) -> int:
        """Return the number of the scalar in the nest's body that holds element `index` of node `n`, adding it if
        needed.

        If `is_store`, the node is computed here even where other groups load its stored value; an earlier scalar of the
        same element is still returned.
        """
        key = n, index
        number = self.values.get(key)
        if number is None:
            number = self.values[key] = self._value(n, index, is_store)
        return number

    def _value(self, n: Node, index: IndexMap, is_store: bool) -> int:
        """Write the computation of element `index` of node `n` as scalars, and return the number of the last one.

        It is a literal, a load, the element of a view's input, or an operation. If `is_store`, the node is computed
        here even where others load its stored value.
        """
        if is_literal(n):
            return self._scalar(Scalar("const", n.type.dtype, (), _literal(n)))
        if n.op == "arange":
            return self._arange(n, index)
        # A stored node is computed here even if other groups, or this one with another map, load it.
        if not is_store and self._is_loaded(n, index):
            return self._load(n, index)
        if n.op in MOVEMENT_OPS:
            pushed = map_view_input(n, index, len(self.loops))
            assert pushed is not None, "group.py requests a buffer if a view is not affine"
            return self.value(n.inputs[0], pushed)
        arguments = tuple(self.value(i, index) for i in n.inputs)
        self._count(n)
        # The dtype of a cast is already the dtype of the scalar.
        attrs = dict(n.attrs) if n.attrs and n.op != "cast" else None
        body = OPS[n.op].body
        assert body is not None, "match.py keeps operations without a body out of nests"
        return self._scalar(Scalar(n.op, n.type.dtype, arguments, attrs, body.unit))

    def _is_loaded(self, n: Node, index: IndexMap) -> bool:
        if (n, index) in self.group.loads or is_leaf(n) or n.op == "result" or n in self.matches:
            return True
        home = self.home.get((n, 0), self.group)
        return home is not self.group and (n, index) not in self.group.members

    def _load(self, n: Node, index: IndexMap) -> int:
        operand = (stored_value(n), flat_access(index, len(self.loops)))
        number, _ = self.operands.setdefault(operand, (len(self.operands), n))
        return self._scalar(Scalar("load", n.type.dtype, (), number))

    def _arange(self, n: Node, index: IndexMap) -> int:
        """Write element `index` of an arange, and return the number of its scalar.

        It is an affine index if start and step are integers; otherwise it is computed in float64 and rounded once.
        """
        at = flat_access(index, len(self.loops))
        start, step, kind = n.attrs["start"], n.attrs["step"], n.type.dtype
        # Integers are an affine function of the loops and need no arithmetic in the body. Fractions are computed in
        # float64 from the index, as in NumPy, and rounded once.
        if isinstance(start, int) and isinstance(step, int):
            access = Access(tuple(s * step for s in at.strides), start + step * at.offset)
            number = self._scalar(Scalar("index", int64, (), access))
            return number if kind is int64 else self._scalar(Scalar("cast", kind, (number,), unit="move"))
        place = self._scalar(Scalar("index", int64, (), at))
        number = self._scalar(Scalar("cast", float64, (place,), unit="move"))
        for op, constant in (("mul", step), ("add", start)):
            operands = (number, self._scalar(Scalar("const", float64, (), constant)))
            number = self._scalar(Scalar(op, float64, operands, unit="add"))
        return number if kind is float64 else self._scalar(Scalar("cast", kind, (number,), unit="move"))


def _literal(n: Node) -> Any:
    """Return the value, a Python number, of a "full" node or of a constant with equal elements; 0 if it has no
    element.
    """
    if n.value is None:
        return n.attrs["value"]
    return n.value.flat[0].item() if n.value.size else 0
