"""Mesh kernels of all instructions but products and attention, as simulated cores run them."""

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
    """Return the kernel that simulated cores run for `instr`, or a generic price if they have none.

    The kernel is empty if any result of the instruction has no elements.
    """
    if not all(dataflow.type(w).size for w in instr.writes):
        return price_alone(EMPTY_PHASE)
    return _make_call_kernel(_find_call(instr, dataflow), Cores(rect, machine)) or make_generic_kernel(
        instr, dataflow, rect, machine
    )


def to_core_type(type: Type) -> Type:
    """Return `type` with its element type replaced by the nearest one that cores have."""
    return type if to_core_dtype(type.dtype) is type.dtype else Type(type.shape, to_core_dtype(type.dtype))


def to_core_dtype(dtype: DType) -> DType:
    """Return the nearest element type that cores have.

    Floating-point types of at least 32 bits become float32, and narrower ones that cores lack become bfloat16. Other
    types are unchanged.
    """
    if not dtype.is_floating_point or dtype.name in ITEM_BYTES:
        return dtype
    return float32 if dtype.itemsize >= ITEM_BYTES["float32"] else bfloat16


def to_core_nest(nest: Nest) -> Nest:
    """Return the nest with types that cores have and normalized offsets. It has the same price."""
    return replace(
        normalize_offsets(nest),
        inputs=tuple(map(to_core_type, nest.inputs)),
        outputs=tuple(map(to_core_type, nest.outputs)),
        body=tuple(replace(scalar, dtype=to_core_dtype(scalar.dtype)) for scalar in nest.body),
    )


def normalize_offsets(nest: Nest) -> Nest:
    """Return the nest with every nonzero access offset replaced by 1, which does not change its price.

    Gradients of parameters that are slices of one tensor start at different offsets. Without this they would be priced
    separately.
    """

    # Keep zero and nonzero offsets apart: a kernel may check whether it reads where it writes.
    def near(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(Access(access.strides, min(access.offset, 1)) for access in accesses)

    return replace(nest, reads=near(nest.reads), writes=near(nest.writes))


class _KernelCall:
    """A hashable key of an instruction and its operand types `reads`.

    Calls are equal if they have the same kernel, nest or attributes, and operand types.
    """

    def __init__(self, instr: Instr, reads: tuple[Type, ...]):
        self.instr, self.reads = instr, reads
        # Leave out labels, script lines and buffers, so that equal layers share one kernel.
        self._key = instr.kernel, str(instr.nest) if instr.nest else repr(_attributes_without_draw(instr)), reads
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KernelCall) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


def _attributes_without_draw(instr: Instr) -> Mapping[str, Any]:
    """Return the attributes of an instruction without the call number of a random draw, which changes no cycle.

    The attributes of the instruction are unchanged.
    """
    attrs = instr.attrs.get("attrs")
    return {**instr.attrs, "attrs": {k: v for k, v in attrs.items() if k != DRAW}} if attrs else instr.attrs


_known_calls: WeakKeyDictionary[Dataflow, dict[int, tuple[Instr, _KernelCall]]] = WeakKeyDictionary()
"""For each program, its instructions by object identity, with their calls. Each call is placed many times."""


def _find_call(instr: Instr, dataflow: Dataflow) -> _KernelCall:
    """Return the call of an instruction with types that cores have: a hashable key of its kernel.

    It is cached for each program and instruction object.
    """
    known = _known_calls.setdefault(dataflow, {})
    if id(instr) not in known:
        reads = tuple(to_core_type(dataflow.type(r)) for r in instr.reads)
        on_cores = replace(instr, nest=to_core_nest(instr.nest) if instr.nest else None)
        # Keep the instruction alive, so that its id is not reused.
        known[id(instr)] = instr, _KernelCall(on_cores, reads)
    return known[id(instr)][1]


@lru_cache(maxsize=4096)
def _make_call_kernel(call: _KernelCall, cores: Cores) -> MeshKernel | None:
    """Return the kernel of a call, repeated for all its rounds, or None if `cores` cannot run it. Cached."""
    # An unsupported call is no error here: a report needs a price for it.
    try:
        mesh_call = call_of(call.instr, call.reads, cores)
    except LazyError:
        return None
    return mesh_call.kernel.repeated(mesh_call.rounds)
