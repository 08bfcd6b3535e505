"""Who feeds whom: a program with its producers, users, resident tensors and flows looked up once.

A kernel without work (a view, a free) moves nothing: it is looked through, and its result stands for its operand.

A tensor is *resident* when it does not depend on the batch: state, constants, and what a *preparing* kernel makes
from them alone (a cast or a transpose of weights). In pipelined mode it stays in the memory of the kernels that read
it; in streaming mode it comes from the weight host.

A tensor is *per sample* when it has a row (or several) for each sample and can flow through a pipeline row by row. It
is told by its shape: the leading extent is a multiple of the batch size, and it is no gradient of a weight, nor made of
weights and gradients alone.

A tensor is a *gradient* of a state tensor when an update of that state reads it in the state's own size, or when it
was made, element by element, into one that is.

An instruction *settles* a step when it works on no sample, and nothing that does waits for it: updates, the norm of
all gradients, a mean that is only reported. It runs once for a batch, after the samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from lazytensor.ir.program import Density, Instr, Program
from lazytensor.ir.types import Type, Work
from wse_sim.planner.optimizer_state import state_groups

# No index of an instruction, so it can stand in the same place and compare unequal to all.
EXTERNAL_SOURCE = -1
"""The source of a tensor that no kernel of the program made."""


Sweep = Literal["forward", "backward", "update"]
PRECISION_LEVELS: Mapping[int, str] = {
    0: "sums of 16-bit products in float32",
    1: "mixed, the default: no document says which sums stay wide, so that nothing tells its price from level 2's",
    2: "sums of 16-bit products in 16 bits",
}
"""The vendor's precision optimization levels: float32 accumulation, mixed (its default), fast.

Published of them: these words, that 1 is the default, and that level 0 is advised for models above 6.7 billion
parameters (documentation of releases 1.9 to 2.10, "CS data formats" among the how-to guides, and "numeric precision").
Neither cycles nor memory nor accumulation types of level 1 are. It lies between the other two, so its true price is no
less than what is printed for it and no more than that of level 0: the equality is what the documents leave.
"""


class BufferVersion(NamedTuple):
    """A read: the buffer that really holds the data, and the instruction that wrote it last (or OUTSIDE)."""

    buffer: int
    source: int


@dataclass(frozen=True)
class KernelFlow:
    """A tensor that travels between two kernels in a step."""

    source: int
    target: int
    bytes: int


@dataclass(frozen=True)
class Sparsity:
    """Sparse tensors: weights by buffer, and gradients by the kernel that makes them."""

    weights: Mapping[int, Density] = field(default_factory=dict)
    gradients: Mapping[int, Density] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dataflow:
    """A program, looked up. All tuples have one entry for each instruction."""

    program: Program
    kernels: tuple[int, ...]  # the instructions that do something
    operands: tuple[tuple[BufferVersion, ...], ...]
    results: tuple[tuple[int, ...], ...]
    resident: frozenset[int]
    per_sample: frozenset[int]
    preparing: frozenset[int]
    settling: frozenset[int]
    groups: Mapping[int, int]  # state buffer -> the parameter that it belongs to: itself, or the one it is a slot of
    gradients: Mapping[BufferVersion, int]  # gradient -> its parameter
    final: Mapping[int, BufferVersion]  # buffer asked for at the end -> who holds it
    batch_size: int
    precision_level: int = 1  # as `PRECISION_LEVELS` has it
    sparsity: Sparsity = Sparsity()  # of weights that stream in; nothing is spared where they lie still

    @cached_property
    def sweeps(self) -> dict[int, Sweep]:
        """The sweep of each kernel: what depends on a gradient belongs to the backward sweep, whoever recorded it."""
        sweeps: dict[int, Sweep] = {}
        for i in self.kernels:
            direction = self.program.instrs[i].direction
            if i in self.settling and (i in self.preparing or direction != "forward"):
                sweeps[i] = "update"
            elif direction == "backward" or any(sweeps.get(o.source, "forward") != "forward" for o in self.operands[i]):
                sweeps[i] = "update" if i in self.settling else "backward"
            else:
                sweeps[i] = "forward"
        return sweeps

    @cached_property
    def users(self) -> Mapping[tuple[int, int], Sequence[int]]:
        """(buffer, writer or OUTSIDE) -> instructions that read it."""
        return _find_users(self.operands)

    @cached_property
    def nbytes(self) -> list[int]:
        """Bytes of each buffer, for whoever asks for those of all."""
        return [b.type.nbytes for b in self.program.buffers]

    def type(self, buffer: int) -> Type:
        """Type of a buffer."""
        return self.program.buffers[buffer].type

    def kind(self, buffer: int) -> str:
        """Kind of a buffer: "batch", "state", "const" or what a kernel makes."""
        return self.program.buffers[buffer].kind

    @cached_property
    def on_host(self) -> frozenset[int]:
        """What the weight host does in streaming mode: updates and what settles, and preparing weights."""
        return self.settling | self.preparing


def instruction_work(instr: Instr) -> Work:
    """The work of an instruction, or of its nest if the instruction does not say."""
    return instr.nest.work if instr.nest and _is_empty_work(instr.work) else instr.work


def has_no_work(instr: Instr) -> bool:
    """True for views and frees: they need no PE."""
    return _is_empty_work(instruction_work(instr))


def _is_empty_work(work: Work) -> bool:
    # Asked of each instruction a dozen times: a comparison of records would take most of a plan.
    return not (work.flops or work.bytes_read or work.bytes_written)


def program_batch_size(program: Program) -> int:
    """Leading extent of the first batch tensor that has one; 1 without a batch."""
    shapes = (program.buffers[b].type.shape for b in program.batch)
    return next((shape[0] for shape in shapes if shape and shape[0]), 1)


def wire(program: Program) -> Dataflow:
    """Look up `program` in one pass over its instructions."""
    holder: dict[int, BufferVersion] = {}
    resident = {b.index for b in program.buffers if b.kind in ("state", "const")}
    operands: list[tuple[BufferVersion, ...]] = []
    results: list[tuple[int, ...]] = []
    preparing: set[int] = set()
    kernels: list[int] = []
    for i, instr in enumerate(program.instrs):
        # A buffer may be written several times: who wrote it last before this instruction is what its reader waits for.
        read = tuple(dict.fromkeys([holder.get(r) or BufferVersion(r, EXTERNAL_SOURCE) for r in instr.reads]))
        if has_no_work(instr):
            _propagate_view(instr, read, holder, resident)
            operands.append(())
            results.append(())
            continue
        kernels.append(i)
        # Casts and transposes of weights depend on no sample: done once for a batch, they are weights like those that
        # they read.
        if _is_preparation(program, instr, read, resident):
            preparing.add(i)
            resident.update(instr.writes)
        # After the reads: an instruction may write the buffer that it reads.
        for w in instr.writes:
            holder[w] = BufferVersion(w, i)
        operands.append(read)
        results.append(tuple(dict.fromkeys(instr.writes)))
    final = {b: holder.get(b, BufferVersion(b, EXTERNAL_SOURCE)) for b in _requested_buffers(program)}
    groups = state_groups(program)
    gradients = find_gradients(program, operands, groups)
    touched = [({o.buffer for o in operands[i]}, set(results[i])) for i in kernels]
    per_sample = _find_per_sample(program, touched, resident, gradients)
    return Dataflow(
        program=program,
        kernels=tuple(kernels),
        operands=tuple(operands),
        results=tuple(results),
        resident=frozenset(resident),
        per_sample=per_sample,
        preparing=frozenset(preparing),
        settling=_find_settling(program, kernels, touched, _find_users(operands), per_sample, preparing),
        groups=groups,
        gradients=gradients,
        final=final,
        batch_size=program_batch_size(program),
    )


def find_gradients(
    program: Program, operands: Sequence[tuple[BufferVersion, ...]], groups: Mapping[int, int]
) -> dict[BufferVersion, int]:
    """Every tensor that is a gradient -> the parameter it is the gradient of."""
    sizes = [b.type.size for b in program.buffers]
    ends = {end: start for start, end in program.state.values()}
    gradients: dict[BufferVersion, int] = {}
    for i, instr in enumerate(program.instrs):
        if instr.direction != "update":
            continue
        # Both ends of a state, since an update may read the old value and write the new one elsewhere.
        states = {groups[b] for b in (*instr.reads, *(ends.get(w, w) for w in instr.writes)) if b in groups}
        waiting = [(o, g) for g in states for o in operands[i] if sizes[o.buffer] == sizes[g] > 1]
        while waiting:
            version, group = waiting.pop()
            if version.source == EXTERNAL_SOURCE or version in gradients or version.buffer in groups:
                continue
            # An update may take several instructions: what lies between them is no gradient, but leads to it.
            if program.instrs[version.source].direction != "update":
                gradients[version] = group
            # A cast, a sum or a clipped copy, element by element, is a gradient made of gradients. Any other kernel
            # made it of activations, which may have its size by chance.
            if is_elementwise(program.instrs[version.source]):
                waiting += [(o, group) for o in operands[version.source] if sizes[o.buffer] == sizes[group]]
    return gradients


def is_elementwise(instr: Instr) -> bool:
    """Whether a kernel makes each element of one of each operand, or of a few."""
    # Even over a single sample a sum is made of that sample's gradient, and not of the weight's.
    return instr.nest is not None and not any(loop.is_reduction for loop in instr.nest.loops)


def _propagate_view(
    instr: Instr, read: Sequence[BufferVersion], holder: dict[int, BufferVersion], resident: set[int]
) -> None:
    for w in instr.writes:
        holder[w] = read[0] if read else BufferVersion(w, EXTERNAL_SOURCE)
        if read and read[0].buffer in resident:
            resident.add(w)


def _is_preparation(program: Program, instr: Instr, read: Sequence[BufferVersion], resident: set[int]) -> bool:
    """From resident tensors alone and no larger than they are; a random mask made of a counter is not that."""
    if instr.direction == "update" or not read or not resident.issuperset([o.buffer for o in read]):
        return False
    size_in = sum(program.buffers[o.buffer].type.size for o in read)
    # What is larger than all that it reads was not prepared from it: a mask of random numbers made of a counter, for
    # example. Two results of one size are two copies.
    return max((program.buffers[w].type.size for w in instr.writes), default=0) <= size_in


def _find_per_sample(
    program: Program,
    kernels: Sequence[tuple[set[int], set[int]]],
    resident: set[int],
    gradients: Mapping[BufferVersion, int],
) -> frozenset[int]:
    """Of kernels by the buffers that each reads and writes."""
    types = [b.type for b in program.buffers]
    # A gradient may have as many rows as the batch by chance; what an update makes of it tells them apart.
    of_weights = {version.buffer for version in gradients} | resident
    # What orders weights, as a mask that changes is found, has their rows too. What is larger than all that it is made
    # of, such as random bits of a counter, may be of samples or not.
    blank: set[int] = set()
    for sources, written in kernels:
        known = sources - blank
        if known <= of_weights:
            size_in = sum([types[b].size for b in known])
            of_weights |= {w for w in written if known and types[w].size <= size_in}
            blank |= written - of_weights
    batch = program_batch_size(program)
    rows = [type.shape[0] if type.shape else 0 for type in types]
    shaped = {b for b, n in enumerate(rows) if n and n % batch == 0 and b not in of_weights}
    samples = shaped - blank
    # It is where it meets some.
    for sources, written in reversed(kernels):
        if not (samples.isdisjoint(sources) and samples.isdisjoint(written)):
            samples |= sources & blank & shaped
    return frozenset(samples)


def _find_settling(
    program: Program,
    kernels: Sequence[int],
    touched: Sequence[tuple[set[int], set[int]]],
    users: Mapping[tuple[int, int], Sequence[int]],
    per_sample: frozenset[int],
    preparing: set[int],
) -> frozenset[int]:
    """From the last instruction back: it settles if it touches no sample and all that read it settle."""
    settling: set[int] = set()
    for i, (read, written) in zip(reversed(kernels), reversed(touched), strict=True):
        if program.instrs[i].direction == "update":
            settling.add(i)
        elif per_sample.isdisjoint(read) and per_sample.isdisjoint(written):
            readers = [u for w in written for u in users.get((w, i), ())]
            # What prepares a tensor that nothing reads in this program prepares it for the next step.
            if settling.issuperset(readers) and not (i in preparing and not readers):
                settling.add(i)
    return frozenset(settling)


def _requested_buffers(program: Program) -> tuple[int, ...]:
    return (*program.fetches, *(end for _, end in program.state.values()))


def _find_users(operands: Sequence[tuple[BufferVersion, ...]]) -> dict[tuple[int, int], list[int]]:
    users: dict[tuple[int, int], list[int]] = {}
    for i, read in enumerate(operands):
        for o in read:
            users.setdefault(o, []).append(i)
    return users


def find_flows(dataflow: Dataflow) -> Iterator[KernelFlow]:
    """Every tensor that leaves the kernel that made it, in a step of pipelined mode; OUTSIDE is the wafer's edge.

    A kernel keeps its copy of a state tensor, so a state flows only when it is new, from the kernel that updates it.
    """
    nbytes = dataflow.nbytes
    for (buffer, source), users in dataflow.users.items():
        # State and constants lie with each of their readers and need not travel.
        if source != EXTERNAL_SOURCE or dataflow.kind(buffer) == "batch":
            yield from (KernelFlow(source, i, nbytes[buffer]) for i in users)
    # A result that is fetched twice leaves the wafer once.
    for fetch in dict.fromkeys(dataflow.program.fetches):
        buffer, source = dataflow.final[fetch]
        if source != EXTERNAL_SOURCE:
            yield KernelFlow(source, EXTERNAL_SOURCE, nbytes[buffer])
    for start, end in dict.fromkeys(dataflow.program.state.values()):
        buffer, source = dataflow.final[end]
        if source != EXTERNAL_SOURCE:
            # The kernel that updates a weight has the new one already.
            yield from (
                KernelFlow(source, i, nbytes[buffer])
                for i in dataflow.users.get((start, EXTERNAL_SOURCE), ())
                if i != source
            )
