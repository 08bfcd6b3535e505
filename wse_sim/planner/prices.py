"""What kernels take on a rectangle, priced once for all that are equal: the layers of a deep model are few kinds.

Two kernels are equal if they have the same name, attributes, operand types and loops, and the same operands in place.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from lazytensor.ir.types import DRAW
from wse_sim.cost_model.colours import count_colours
from wse_sim.cost_model.cost import ZERO_COST, Cost, cost
from wse_sim.isa.core_program import ITEM_BYTES
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Phase
from wse_sim.planner.dataflow import Dataflow, instruction_work
from wse_sim.planner.kernel_selection import phase_program
from wse_sim.planner.kernel_selection.generic import core_dtype_name
from wse_sim.planner.kernel_selection.simulated_kernels import normalize_offsets
from wse_sim.planner.kernel_selection.sparse_product import find_sparse_product, make_sparse_phase

MAX_KEPT_PRICES = 1 << 15
"""Prices that a process keeps for plans to come: what is planned again, in a loop or a notebook, is priced already."""
MAX_PARALLEL_SPEED_UP = 2
"""A PE alone has the longest vectors and waits for nothing, so that many are hardly ever faster than it for each."""
MAX_KEPT_PHASES = 256
"""Phase programs whose cost is kept: small kernels have the same one on hundreds of rectangles."""
_kept_prices: dict[tuple[object, Machine, int, int], tuple[Cost, bool]] = {}


def _priced_attributes(attrs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Attributes that a price may depend on: the number of a draw says which random bits, and not how many."""
    inner = {name: _priced_attributes(value) if isinstance(value, Mapping) else value for name, value in attrs.items()}
    return [(name, inner[name]) for name in sorted(inner) if name != DRAW]


def _attribute_ids(attrs: Mapping[str, Any]) -> tuple[object, ...]:
    """The same attributes by the identity of their values."""
    return tuple([_attribute_ids(v) if isinstance(v, Mapping) else id(v) for name, v in attrs.items() if name != DRAW])


def _identity_key(dataflow: Dataflow, i: int) -> object:
    """A key that is equal only for equal kernels: the identities of the objects that kernel `i` consists of.

    Equal layers share most of these objects. The program keeps them, so that no identity is used twice.
    """
    instr, buffers = dataflow.program.instrs[i], dataflow.program.buffers
    resident, sparse = dataflow.resident, dataflow.sparsity
    return (
        instr.kernel,
        instr.direction == "update",
        tuple([(id(buffers[b].type), b in resident, sparse.weights.get(b)) for b in instr.reads]),
        tuple([id(buffers[b].type) for b in instr.writes]),
        _attribute_ids(instr.attrs) if instr.attrs else (),
        sparse.gradients.get(i),
        id(instr.nest),
    )


class Prices:
    """Costs on one machine. A kernel's kind is a number, equal for equal kernels of any program.

    >>> import lazytensor as lt, wse_sim
    >>> prices, program = wse_sim.Prices(wse_sim.WSE2), lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64))
    >>> reports = [wse_sim.plan(program, "wse2", mode, prices=prices).report for mode in ("pipelined", "streaming")]
    >>> [report.fits for report in reports]
    [True, True]
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        self._kinds: dict[object, int] = {}
        self._keys: list[object] = []
        # Kinds by the number of a kernel, and by what equal ones have in common. Prices outlive the programs that they
        # are asked for.
        self._known: WeakKeyDictionary[Dataflow, dict[object, int]] = WeakKeyDictionary()
        self._longest: dict[int, int] = {}
        self._costs: dict[tuple[int, int, int], Cost] = {}
        self._phases: dict[int, tuple[Phase, Cost]] = {}
        self._sparse: set[tuple[int, int, int]] = set()
        self._colours: dict[tuple[int, int, int], int] = {}

    def kind(self, dataflow: Dataflow, i: int) -> int:
        """The number of the kind of kernel `i`."""
        return self._known_kinds(dataflow, (i,))[i]

    def kinds(self, dataflow: Dataflow, kernels: Collection[int]) -> list[int]:
        """The numbers of the kinds of kernels."""
        known = self._known_kinds(dataflow, kernels)
        return [known[i] for i in kernels]

    def _known_kinds(self, dataflow: Dataflow, kernels: Collection[int]) -> dict[object, int]:
        """The numbers of the kinds of these kernels among those that are known."""
        known = self._known.get(dataflow)
        if known is None:
            known = self._known[dataflow] = {}
        for i in kernels:
            if i not in known:
                # Most equal ones are told without a comparison of records.
                looks = _identity_key(dataflow, i)
                if looks not in known:
                    known[looks] = self._kind(dataflow, i)
                known[i] = known[looks]
        return known

    def _kind(self, dataflow: Dataflow, i: int) -> int:
        key = self._key(dataflow, i)
        if key not in self._kinds:
            self._kinds[key] = len(self._keys)
            self._keys.append(key)
        return self._kinds[key]

    def _key(self, dataflow: Dataflow, i: int) -> object:
        instr = dataflow.program.instrs[i]
        # What stays in place decides the arrangement; the update sweep has its operands where they are.
        sparse = dataflow.sparsity.weights
        reads = tuple((dataflow.type(b), b in dataflow.resident, sparse.get(b)) for b in instr.reads)
        # Attributes are names, numbers and lists of them: their text tells them apart, and has a hash.
        attrs = repr(_priced_attributes(instr.attrs))
        writes = tuple(dataflow.type(b) for b in instr.writes)
        return (
            instr.kernel,
            dataflow.precision_level,
            instr.direction == "update",
            reads,
            writes,
            attrs,
            dataflow.sparsity.gradients.get(i),
            normalize_offsets(instr.nest).key if instr.nest is not None else None,
        )

    def part(self, dataflow: Dataflow, i: int, width: int, height: int) -> tuple[int, int]:
        """The part of a rectangle that kernel `i` has a use for: no side has more PEs than it has elements."""
        longest = self.longest(dataflow, i)
        return min(width, longest), min(height, longest)

    def longest(self, dataflow: Dataflow, i: int) -> int:
        """PEs of a line beyond which kernel `i` has nothing for them: as many as it has iterations, or elements."""
        kind = self.kind(dataflow, i)
        if kind not in self._longest:
            self._longest[kind] = _longest_line(dataflow, i)
        return self._longest[kind]

    def least_work(self, dataflow: Dataflow, i: int) -> float:
        """Cycles that all PEs together take for kernel `i` at least.

        Several of them may be arranged better than one, but not `MAX_PARALLEL_SPEED_UP` times so; and what is no nest
        does its operations at most at the rate of multiply-adds.
        """
        instr = dataflow.program.instrs[i]
        alone = self.kernel(dataflow, i, 1, 1).cycles / MAX_PARALLEL_SPEED_UP
        if instr.nest is not None:
            return alone
        product = find_sparse_product(dataflow, i)
        flops = instruction_work(instr).flops * (product.share if product else 1.0)
        return max(alone, flops / (2 * self.machine.per_cycle("fma", ITEM_BYTES[core_dtype_name(instr, dataflow)])))

    def kernel(self, dataflow: Dataflow, i: int, width: int, height: int) -> Cost:
        """Cost of kernel `i` for the whole batch on a rectangle of that size."""
        width, height = self.part(dataflow, i, width, height)
        key = self.kind(dataflow, i), width, height
        if key not in self._costs:
            known = self._keys[key[0]], self.machine, width, height
            # Looked up once: another thread of a sweep may empty the table at any time.
            priced = _kept_prices.get(known)
            if priced is None:
                priced = self._priced(dataflow, i, width, height)
                if len(_kept_prices) >= MAX_KEPT_PRICES:
                    _kept_prices.clear()
                _kept_prices[known] = priced
            self._costs[key], is_sparse = priced
            if is_sparse:
                self._sparse.add(key)
        return self._costs[key]

    def _priced(self, dataflow: Dataflow, i: int, width: int, height: int) -> tuple[Cost, bool]:
        """The cost, and whether it is that of leaving out zeros."""
        # Where a rectangle stands makes no difference to a price.
        rect = Rect(0, 0, width, height)
        dense = self._cost(phase_program(dataflow.program.instrs[i], dataflow, rect, self.machine))
        phase = make_sparse_phase(dataflow, i, rect, self.machine)
        sparse = cost(phase, self.machine) if phase else dense
        # Zeros are multiplied where that is faster than to name the others one by one.
        return min(dense, sparse, key=lambda c: c.cycles), sparse.cycles < dense.cycles

    def _cost(self, phase: Phase) -> Cost:
        """The cost of a phase program, once for all rectangles that have the same one."""
        if id(phase) not in self._phases:
            if len(self._phases) >= MAX_KEPT_PHASES:
                self._phases.clear()
            # With the program itself, so that no other one comes by its number.
            self._phases[id(phase)] = phase, cost(phase, self.machine)
        return self._phases[id(phase)][1]

    def colours(self, dataflow: Dataflow, i: int, width: int, height: int) -> int:
        """Colours that kernel `i` takes within its rectangle, written densely."""
        # Of what is placed alone, and once for equal kernels: a search asks for none.
        key = self.kind(dataflow, i), width, height
        if key not in self._colours:
            phase = phase_program(dataflow.program.instrs[i], dataflow, Rect(0, 0, width, height), self.machine)
            self._colours[key] = count_colours(phase, self.machine)
        return self._colours[key]

    def work_share(self, dataflow: Dataflow, i: int, width: int, height: int) -> float:
        """The share of the operations of kernel `i` that are done at its price: zeros may be left out."""
        self.kernel(dataflow, i, width, height)
        key = self.kind(dataflow, i), *self.part(dataflow, i, width, height)
        product = find_sparse_product(dataflow, i) if key in self._sparse else None
        return product.share if product else 1.0

    def kernels(self, dataflow: Dataflow, kernels: Sequence[int], width: int, height: int) -> Cost:
        """Costs of `kernels`, one after the other."""
        total = ZERO_COST
        # Thousands of tiny parameters are a few kinds.
        kinds = self.kinds(dataflow, kernels)
        samples = dict(zip(kinds, kernels, strict=True))
        for kind, times in Counter(kinds).items():
            total = total.then(self.kernel(dataflow, samples[kind], width, height).times(times))
        return total


def _longest_line(dataflow: Dataflow, i: int) -> int:
    instr = dataflow.program.instrs[i]
    if instr.nest is not None:
        return max(1, prod(loop.extent for loop in instr.nest.loops))
    return max(1, *(dataflow.type(b).size for b in (*instr.reads, *instr.writes)))
