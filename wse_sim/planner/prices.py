"""Prices of kernels on rectangles, computed once for all equal kernels.

Two kernels are equal if they have the same name, attributes, operand types, loops and resident operands. The layers of
a deep model have only a few kinds of kernels.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
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
"""Maximum number of prices that a process keeps for later plans. The table is emptied when it is full."""
MAX_PARALLEL_SPEED_UP = 2
"""Maximum speed-up per PE over a single PE that the lower bound on work assumes.

A single PE has the longest vectors and never waits, so several PEs rarely exceed its efficiency.
"""
MAX_KEPT_PHASES = 256
"""Maximum number of phase programs whose cost is kept. Small kernels share one program on many rectangles."""
_kept_prices: dict[tuple[object, Machine, int, int], tuple[Cost, bool]] = {}
"""Cost of a kernel on a rectangle, and whether it skips zeros, by (kernel key, machine, width, height)."""


def _priced_attributes(attrs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the attributes as sorted (name, value) pairs, without call numbers of random draws.

    These change no price. Nested mappings become such lists too.
    """
    inner = {name: _priced_attributes(value) if isinstance(value, Mapping) else value for name, value in attrs.items()}
    return [(name, inner[name]) for name in sorted(inner) if name != DRAW]


def _attribute_ids(attrs: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the ids of attribute values as nested tuples, without call numbers of random draws."""
    return tuple([_attribute_ids(v) if isinstance(v, Mapping) else id(v) for name, v in attrs.items() if name != DRAW])


def _identity_key(dataflow: Dataflow, i: int) -> object:
    """Return a tuple of object ids that is equal for two kernels of a program only if the kernels are equal.

    Equal kernels may have different tuples, but equal layers share most of these objects. The program keeps them alive,
    so ids are not reused.
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
    """A cache of kernel costs on one `machine`, a machine or its name.

    Each kernel has a kind, a number that is equal for equal kernels of any program. One object can be used for several
    plans on the same machine.

    >>> import lazytensor as lt, wse_sim
    >>> prices, program = wse_sim.Prices(wse_sim.WSE2), lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64))
    >>> reports = [wse_sim.plan(program, "wse2", mode, prices=prices).report for mode in ("pipelined", "streaming")]
    >>> [report.fits for report in reports]
    [True, True]
    """

    def __init__(self, machine: Machine | str):
        self.machine = Machine.of(machine)
        self._kinds: dict[object, int] = {}
        self._keys: list[object] = []
        # Kinds by kernel index and by identity key. The references are weak because prices outlive programs.
        self._known: WeakKeyDictionary[Dataflow, dict[object, int]] = WeakKeyDictionary()
        self._longest: dict[int, int] = {}
        self._costs: dict[tuple[int, int, int], Cost] = {}
        self._phases: dict[int, tuple[Phase, Cost]] = {}
        self._sparse: set[tuple[int, int, int]] = set()
        self._colours: dict[tuple[int, int, int], int] = {}

    def with_edge_of(self, machine: Machine) -> "Prices":
        """Return prices on `machine`: these, if it differs at most in the rate of the edge, else new ones.

        No kernel transfers anything over the edge of the wafer, so its rate changes no price.
        """
        if replace(machine, edge_bits_per_s=self.machine.edge_bits_per_s) != self.machine:
            return Prices(machine)
        prices = copy(self)
        prices.machine = machine
        return prices

    def kind(self, dataflow: Dataflow, i: int) -> int:
        """Return the kind of kernel `i` of a program: a number that equal kernels of any program share."""
        return self._known_kinds(dataflow, (i,))[i]

    def kinds(self, dataflow: Dataflow, kernels: Collection[int]) -> list[int]:
        """Return the kind of each of `kernels` of a program, in order."""
        known = self._known_kinds(dataflow, kernels)
        return [known[i] for i in kernels]

    def _known_kinds(self, dataflow: Dataflow, kernels: Collection[int]) -> dict[object, int]:
        """Return the table of kinds of a program by kernel index, after adding these kernels.

        The table has the kinds of earlier kernels and identity keys too. It must not be changed.
        """
        known = self._known.get(dataflow)
        if known is None:
            known = self._known[dataflow] = {}
        for i in kernels:
            if i not in known:
                # Object ids identify most equal kernels without building the full key.
                looks = _identity_key(dataflow, i)
                if looks not in known:
                    known[looks] = self._kind(dataflow, i)
                known[i] = known[looks]
        return known

    def _kind(self, dataflow: Dataflow, i: int) -> int:
        """Return the kind of kernel `i`. A kernel that is equal to no earlier one gets the next number."""
        key = self._key(dataflow, i)
        if key not in self._kinds:
            self._kinds[key] = len(self._keys)
            self._keys.append(key)
        return self._kinds[key]

    def _key(self, dataflow: Dataflow, i: int) -> object:
        """Return a key with everything that the price of kernel `i` depends on except machine and rectangle.

        Call numbers of random draws and the values of nonzero offsets are left out.
        """
        instr = dataflow.program.instrs[i]
        # Resident operands determine the arrangement, except in updates, whose operands are local.
        sparse = dataflow.sparsity.weights
        reads = tuple((dataflow.type(b), b in dataflow.resident, sparse.get(b)) for b in instr.reads)
        # Attributes are names, numbers and lists of them, so their text identifies them and is hashable.
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
        """Return `width` and `height`, each reduced to at most the PEs that kernel `i` can use in a line."""
        longest = self.longest(dataflow, i)
        return min(width, longest), min(height, longest)

    def longest(self, dataflow: Dataflow, i: int) -> int:
        """Return the maximum number of PEs in a line that kernel `i` can use, at least 1.

        It is the number of iterations of its nest or, without a nest, the number of elements of its largest tensor.
        """
        kind = self.kind(dataflow, i)
        if kind not in self._longest:
            self._longest[kind] = _longest_line(dataflow, i)
        return self._longest[kind]

    def least_work(self, dataflow: Dataflow, i: int) -> float:
        """Return a lower bound on the PE cycles (cycles times PEs) of kernel `i`, for the whole batch.

        It is the time on a single PE divided by `MAX_PARALLEL_SPEED_UP`. For kernels that are no nest it is at least
        the time of their operations at the rate of multiply-adds, without those of skipped zeros.
        """
        instr = dataflow.program.instrs[i]
        alone = self.kernel(dataflow, i, 1, 1).cycles / MAX_PARALLEL_SPEED_UP
        if instr.nest is not None:
            return alone
        product = find_sparse_product(dataflow, i)
        flops = instruction_work(instr).flops * (product.share if product else 1.0)
        return max(alone, flops / (2 * self.machine.per_cycle("product", ITEM_BYTES[core_dtype_name(instr, dataflow)])))

    def kernel(self, dataflow: Dataflow, i: int, width: int, height: int) -> Cost:
        """Return the cost of kernel `i` for the whole batch on a rectangle of `width` x `height` PEs.

        Each side counts only up to `longest`. The cost is cached here, and for other plans of this process. The sparse
        form is used if it is faster than the dense one.
        """
        width, height = self.part(dataflow, i, width, height)
        key = self.kind(dataflow, i), width, height
        if key not in self._costs:
            known = self._keys[key[0]], self.machine, width, height
            # Read once, because another thread of a sweep may empty the table at any time.
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
        """Return the cheaper of the dense and the sparse cost, and whether it is the sparse one, which skips zeros.

        The dense one is taken if both are equal or if there is no sparse form.
        """
        # A price does not depend on the position of the rectangle.
        rect = Rect(0, 0, width, height)
        dense = self._cost(phase_program(dataflow.program.instrs[i], dataflow, rect, self.machine))
        phase = make_sparse_phase(dataflow, i, rect, self.machine)
        sparse = cost(phase, self.machine) if phase else dense
        # Multiplying zeros may be faster than streaming an index with each nonzero element.
        return min(dense, sparse, key=lambda c: c.cycles), sparse.cycles < dense.cycles

    def _cost(self, phase: Phase) -> Cost:
        """Return the cost of a phase program, cached by the identity of the program."""
        if id(phase) not in self._phases:
            if len(self._phases) >= MAX_KEPT_PHASES:
                self._phases.clear()
            # Keep the phase program alive, so that its id is not reused.
            self._phases[id(phase)] = phase, cost(phase, self.machine)
        return self._phases[id(phase)][1]

    def colours(self, dataflow: Dataflow, i: int, width: int, height: int) -> int:
        """Return the number of colours that kernel `i` uses within a rectangle of exactly this size.

        The dense form of the kernel is counted, even if its price is that of the sparse form.
        """
        # Cached for equal kernels. Only placed kernels need their colours, the search does not.
        key = self.kind(dataflow, i), width, height
        if key not in self._colours:
            phase = phase_program(dataflow.program.instrs[i], dataflow, Rect(0, 0, width, height), self.machine)
            self._colours[key] = count_colours(phase, self.machine)
        return self._colours[key]

    def work_share(self, dataflow: Dataflow, i: int, width: int, height: int) -> float:
        """Return the share of the operations of kernel `i` that its price includes on a rectangle.

        It is the share of nonzero weights if the sparse form is cheaper there, else 1.
        """
        self.kernel(dataflow, i, width, height)
        key = self.kind(dataflow, i), *self.part(dataflow, i, width, height)
        product = find_sparse_product(dataflow, i) if key in self._sparse else None
        return product.share if product else 1.0

    def kernels(self, dataflow: Dataflow, kernels: Sequence[int], width: int, height: int) -> Cost:
        """Return the total cost of `kernels`, run one after the other for the whole batch; zero for none.

        Each runs on a rectangle of `width` x `height` PEs.
        """
        total = ZERO_COST
        kinds = self.kinds(dataflow, kernels)
        samples = dict(zip(kinds, kernels, strict=True))
        for kind, times in Counter(kinds).items():
            total = total.then(self.kernel(dataflow, samples[kind], width, height).times(times))
        return total


def _longest_line(dataflow: Dataflow, i: int) -> int:
    """Return the iterations of the kernel's nest or, without one, the elements of its largest tensor; at least 1."""
    instr = dataflow.program.instrs[i]
    if instr.nest is not None:
        return max(1, prod(loop.extent for loop in instr.nest.loops))
    return max(1, *(dataflow.type(b).size for b in (*instr.reads, *instr.writes)))
