"""Every kernel but products: the one that simulated cores run for the instruction, with all its rounds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from lazytensor.core.dtype import DType, bfloat16, float32
from lazytensor.errors import LazyError
from lazytensor.ir.nest import Access, Nest
from lazytensor.ir.program import Instr
from lazytensor.ir.types import DRAW, Type
from wse_sim.isa.core_program import ITEM_BYTES
from wse_sim.kernels.calls import call_of
from wse_sim.kernels.kernel import MeshKernel, price_alone
from wse_sim.kernels.mesh_call import Cores
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import EMPTY_PHASE
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.generic import make_generic_kernel


def make_simulated_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """The kernel that runs for `instr`; what has none is priced by its work alone."""
    # A nest without iterations has no tile, and nothing to do.
    if not all(dataflow.type(w).size for w in instr.writes):
        return price_alone(EMPTY_PHASE)
    return _make_call_kernel(_find_call(instr, dataflow), Cores(rect, machine)) or make_generic_kernel(
        instr, dataflow, rect, machine
    )


def to_core_type(type: Type) -> Type:
    """A type as cores have it: nothing wider than float32, and of 16 bits float16 and bfloat16."""
    return type if to_core_dtype(type.dtype) is type.dtype else Type(type.shape, to_core_dtype(type.dtype))


def to_core_dtype(dtype: DType) -> DType:
    """The nearest element type that cores have."""
    if not dtype.is_floating_point or dtype.name in ITEM_BYTES:
        return dtype
    return float32 if dtype.itemsize >= ITEM_BYTES["float32"] else bfloat16


def to_core_nest(nest: Nest) -> Nest:
    """A nest over types that cores have."""
    return replace(
        normalize_offsets(nest),
        inputs=tuple(map(to_core_type, nest.inputs)),
        outputs=tuple(map(to_core_type, nest.outputs)),
        body=tuple(replace(scalar, dtype=to_core_dtype(scalar.dtype)) for scalar in nest.body),
    )


def normalize_offsets(nest: Nest) -> Nest:
    """A nest with the same price: what is read from elsewhere than its operand's start is read from the next element.

    Parameters that are parts of one tensor have gradients that begin anywhere in it, and one price.
    """

    # Not from the start itself: a kernel may look whether it reads where it writes.
    def near(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(Access(access.strides, min(access.offset, 1)) for access in accesses)

    return replace(nest, reads=near(nest.reads), writes=near(nest.writes))


class _KernelCall:
    """An instruction with the types that it reads, equal to every other that has the same kernel."""

    def __init__(self, instr: Instr, reads: tuple[Type, ...]):
        self.instr, self.reads = instr, reads
        # Labels, lines of the script and buffers are left out: layers that are alike have one kernel.
        self._key = instr.kernel, str(instr.nest) if instr.nest else repr(_attributes_without_draw(instr)), reads
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KernelCall) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


def _attributes_without_draw(instr: Instr) -> Mapping[str, Any]:
    """Attributes less the number of a random call, which changes the numbers that are drawn and no cycle."""
    attrs = instr.attrs.get("attrs")
    return {**instr.attrs, "attrs": {k: v for k, v in attrs.items() if k != DRAW}} if attrs else instr.attrs


_known_calls: WeakKeyDictionary[Dataflow, dict[int, tuple[Instr, _KernelCall]]] = WeakKeyDictionary()
"""Of each program its instructions by the number of their object, with their calls: each is placed many times."""


def _find_call(instr: Instr, dataflow: Dataflow) -> _KernelCall:
    known = _known_calls.setdefault(dataflow, {})
    if id(instr) not in known:
        reads = tuple(to_core_type(dataflow.type(r)) for r in instr.reads)
        on_cores = replace(instr, nest=to_core_nest(instr.nest) if instr.nest else None)
        # With the instruction itself, so that no other one comes by its number.
        known[id(instr)] = instr, _KernelCall(on_cores, reads)
    return known[id(instr)][1]


@lru_cache(maxsize=4096)
def _make_call_kernel(call: _KernelCall, cores: Cores) -> MeshKernel | None:
    """The kernel of a call with all its rounds, or None if cores have none."""
    # A refusal is no error here: a report has to name a price for what the mesh cannot run.
    try:
        mesh_call = call_of(call.instr, call.reads, cores)
    except LazyError:
        return None
    return mesh_call.kernel.repeated(mesh_call.rounds)
