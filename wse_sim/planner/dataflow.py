"""Data-flow facts of a program: producers, users, resident tensors and flows, computed once.

An instruction without work (a view, a free) moves no data. Its result is treated as its operand.

A tensor is *resident* if it does not depend on the batch: state, constants, and the results of *preparing* kernels (a
cast or a transpose of weights). In pipelined mode it stays in the memory of the kernels that read it. In streaming mode
it comes from the weight host.

A tensor is *per sample* if it has one or more rows for each sample, so that it can flow through a pipeline row by row.
This is decided by shape: the leading extent is a multiple of the batch size. Gradients of weights, and tensors computed
from weights and gradients only, are excluded.

A tensor is a *gradient* of a state tensor if an update of that state reads it and it has the size of the state. A
tensor from which such a gradient is computed element by element is a gradient too.

A kernel is *settling* if it reads and writes no per-sample tensor and only settling kernels read its results: updates,
the norm of all gradients, a mean that is only reported. It runs once for a batch, after the samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from lazytensor.ir.program import Density, Instr, Program
from lazytensor.ir.types import Type, Work
from wse_sim.planner.optimizer_state import state_groups

EXTERNAL_SOURCE = -1
"""The source of a tensor that no kernel of the program wrote. It is no valid instruction index."""


Sweep = Literal["forward", "backward", "update"]
PRECISION_LEVELS: Mapping[int, str] = {
    0: "sums of 16-bit products in float32",
    1: "mixed (default), priced as level 2, because its accumulation types are not published",
    2: "sums of 16-bit products in 16 bits",
}
"""The vendor's precision optimization levels: float32 accumulation, mixed (the default), fast.

The documentation of releases 1.9 to 2.10 ("CS data formats" among the how-to guides, and "numeric precision") states
only these words, that 1 is the default, and that level 0 is advised for models above 6.7 billion parameters. Cycles,
memory and accumulation types of level 1 are not published. Level 1 is therefore priced like level 2. Its true price is
between this price and that of level 0.
"""


class BufferVersion(NamedTuple):
    """A version of a tensor: the buffer that holds the data, and the index of the instruction that wrote it last.

    `source` is `EXTERNAL_SOURCE` if no instruction of the program has written the buffer. `buffer` is the base buffer,
    not a view of it.
    """

    buffer: int
    source: int


@dataclass(frozen=True)
class KernelFlow:
    """A tensor of `bytes` bytes that moves from kernel `source` to kernel `target` in a step, by instruction index.

    Either end is `EXTERNAL_SOURCE` if the tensor comes from or leaves over the wafer's edge.
    """

    source: int
    target: int
    bytes: int


@dataclass(frozen=True)
class Sparsity:
    """The densities of sparse tensors: of weights by buffer, of weight gradients by the kernel that computes them."""

    weights: Mapping[int, Density] = field(default_factory=dict)
    gradients: Mapping[int, Density] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dataflow:
    """A program with its data-flow facts.

    - `program`: the program
    - `kernels`: indices of the instructions that have work
    - `operands`: for each instruction, the tensor versions that it reads, without duplicates
    - `results`: for each instruction, the buffers that it writes
    - `resident`: buffers that do not depend on the batch
    - `per_sample`: buffers with rows for each sample
    - `preparing`: kernels that compute resident tensors from resident ones
    - `settling`: kernels that run once a batch, after the samples
    - `groups`: for each state buffer, the parameter it belongs to (itself for a parameter)
    - `gradients`: for each gradient, its parameter
    - `final`: for each fetched or new state buffer, the version that holds it at the end of the step
    - `batch_size`: samples of the program's batch
    - `precision_level`: a key of `PRECISION_LEVELS`
    - `sparsity`: sparse weights and gradients, used in streaming mode only
    """

    program: Program
    kernels: tuple[int, ...]
    operands: tuple[tuple[BufferVersion, ...], ...]
    results: tuple[tuple[int, ...], ...]
    resident: frozenset[int]
    per_sample: frozenset[int]
    preparing: frozenset[int]
    settling: frozenset[int]
    groups: Mapping[int, int]
    gradients: Mapping[BufferVersion, int]
    final: Mapping[int, BufferVersion]
    batch_size: int
    precision_level: int = 1
    sparsity: Sparsity = Sparsity()

    @cached_property
    def sweeps(self) -> dict[int, Sweep]:
        """Return the sweep of each kernel: "forward", "backward" or "update".

        A kernel that depends on a backward kernel is not forward, whatever direction was recorded. Settling kernels
        (see the module) are updates if they were not recorded as forward, prepare weights, or depend on a kernel that
        is not forward.
        """
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
        """Return a mapping from each version (buffer, source) that is read to the indices of its readers."""
        return _find_users(self.operands)

    @cached_property
    def nbytes(self) -> list[int]:
        """Return the size of each buffer in bytes, as a list."""
        return [b.type.nbytes for b in self.program.buffers]

    def type(self, buffer: int) -> Type:
        """Return the type of a buffer."""
        return self.program.buffers[buffer].type

    def kind(self, buffer: int) -> str:
        """Return the kind of a buffer: "batch", "state", "const", or "temp" for the result of an instruction."""
        return self.program.buffers[buffer].kind

    @cached_property
    def on_host(self) -> frozenset[int]:
        """Return the kernels that the weight host runs in streaming mode.

        They are updates and what only updates need (settling), and casts or transposes of weights (preparing).
        """
        return self.settling | self.preparing


def instruction_work(instr: Instr) -> Work:
    """Return the work of an instruction. If its `work` is zero, return the work of its nest instead."""
    return instr.nest.work if instr.nest and _is_empty_work(instr.work) else instr.work


def has_no_work(instr: Instr) -> bool:
    """Return whether an instruction has no operations and moves no bytes, as views and frees do. It needs no PE."""
    return _is_empty_work(instruction_work(instr))


def _is_empty_work(work: Work) -> bool:
    # Called a dozen times per instruction; comparing dataclasses would take most of the planning time.
    return not (work.flops or work.bytes_read or work.bytes_written)


def program_batch_size(program: Program) -> int:
    """Return the leading extent of the first batch tensor that has a nonzero one, or 1 if there is none."""
    shapes = (program.buffers[b].type.shape for b in program.batch)
    return next((shape[0] for shape in shapes if shape and shape[0]), 1)


def wire(program: Program) -> Dataflow:
    """Return the data-flow facts of `program`, computed in one pass over its instructions.

    Instructions without work, such as views and frees, are no kernels and have empty entries in `operands` and
    `results`. Readers of a view refer to its base buffer. The result has precision level 1 and no sparsity; the caller
    may replace both.
    """
    holder: dict[int, BufferVersion] = {}
    resident = {b.index for b in program.buffers if b.kind in ("state", "const")}
    operands: list[tuple[BufferVersion, ...]] = []
    results: list[tuple[int, ...]] = []
    preparing: set[int] = set()
    kernels: list[int] = []
    for i, instr in enumerate(program.instrs):
        # A buffer may be written several times. The reader depends on the last writer before it.
        read = tuple(dict.fromkeys([holder.get(r) or BufferVersion(r, EXTERNAL_SOURCE) for r in instr.reads]))
        if has_no_work(instr):
            _propagate_view(instr, read, holder, resident)
            operands.append(())
            results.append(())
            continue
        kernels.append(i)
        # Casts and transposes of weights depend on no sample. They run once per batch and their results count as
        # weights.
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
    """Return a mapping from each gradient version to the parameter it is the gradient of.

    `operands` are the versions that each instruction reads, and `groups` maps state buffers to parameters. A gradient
    has the size of the parameter and is an operand of its update, or of an elementwise kernel that made such an
    operand. One-element states have no gradients, and results of updates are none.
    """
    sizes = [b.type.size for b in program.buffers]
    ends = {end: start for start, end in program.state.values()}
    gradients: dict[BufferVersion, int] = {}
    for i, instr in enumerate(program.instrs):
        if instr.direction != "update":
            continue
        # Consider both ends of a state: an update may read the old value and write the new one to another buffer.
        states = {groups[b] for b in (*instr.reads, *(ends.get(w, w) for w in instr.writes)) if b in groups}
        waiting = [(o, g) for g in states for o in operands[i] if sizes[o.buffer] == sizes[g] > 1]
        while waiting:
            version, group = waiting.pop()
            if version.source == EXTERNAL_SOURCE or version in gradients or version.buffer in groups:
                continue
            # An update may take several instructions. Intermediate results between them are no gradients but lead to
            # them.
            if program.instrs[version.source].direction != "update":
                gradients[version] = group
            # An elementwise kernel (a cast, a sum, clipping) that makes a gradient reads gradients. Other kernels read
            # activations, which may have the same size by chance.
            if is_elementwise(program.instrs[version.source]):
                waiting += [(o, group) for o in operands[version.source] if sizes[o.buffer] == sizes[group]]
    return gradients


def is_elementwise(instr: Instr) -> bool:
    """Return whether an instruction is a nest without reduction loops.

    Each result element then depends on one element of each operand, or on a few.
    """
    # A reduction loop counts even if its extent is 1: it sums per-sample gradients.
    return instr.nest is not None and not any(loop.is_reduction for loop in instr.nest.loops)


def _propagate_view(
    instr: Instr, read: Sequence[BufferVersion], holder: dict[int, BufferVersion], resident: set[int]
) -> None:
    """Make the results of a workless instruction aliases of its first operand, in `holder` and in `resident`.

    `holder` maps each buffer to its version. Without operands a result counts as written outside of the program.
    """
    for w in instr.writes:
        holder[w] = read[0] if read else BufferVersion(w, EXTERNAL_SOURCE)
        if read and read[0].buffer in resident:
            resident.add(w)


def _is_preparation(program: Program, instr: Instr, read: Sequence[BufferVersion], resident: set[int]) -> bool:
    """Return whether an instruction computes tensors from resident ones only, none larger than all operands together.

    Updates and instructions without operands are no preparation. The size limit excludes random masks, which are made
    of a small counter.
    """
    if instr.direction == "update" or not read or not resident.issuperset([o.buffer for o in read]):
        return False
    size_in = sum(program.buffers[o.buffer].type.size for o in read)
    # A result larger than all operands, such as a random mask made of a counter, is no preparation. Two results of one
    # size are two copies.
    return max((program.buffers[w].type.size for w in instr.writes), default=0) <= size_in


def _find_per_sample(
    program: Program,
    kernels: Sequence[tuple[set[int], set[int]]],
    resident: set[int],
    gradients: Mapping[BufferVersion, int],
) -> frozenset[int]:
    """Return the buffers that have rows for each sample: their leading extent is a multiple of the batch size.

    `kernels` gives, for each kernel, the sets of buffers that it reads and writes. Excluded are resident buffers,
    gradients, and results of these only. A result larger than such operands, such as random bits of a counter, is
    included if a kernel combines it with a per-sample tensor.
    """
    types = [b.type for b in program.buffers]
    # A weight gradient may have as many rows as the batch by chance, so known gradients are excluded.
    of_weights = {version.buffer for version in gradients} | resident
    # 1. Tensors computed from weights only (an ordering of weights, a mask update) are excluded too. Results larger
    # than their operands, such as random bits of a counter, stay undecided (`blank`).
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
    # 2. An undecided tensor is per sample if a kernel combines it with per-sample tensors.
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
    """Return the settling kernels, by a walk from the last kernel to the first.

    Updates settle. Any other kernel settles if it touches no per-sample buffer and all users of its results settle,
    also if there are none. A preparing kernel whose result has no user does not settle: it prepares a tensor for the
    next step. `touched` gives, for each of `kernels`, the sets of buffers that it reads and writes. `users` maps
    (buffer, kernel) to readers.
    """
    settling: set[int] = set()
    for i, (read, written) in zip(reversed(kernels), reversed(touched), strict=True):
        if program.instrs[i].direction == "update":
            settling.add(i)
        elif per_sample.isdisjoint(read) and per_sample.isdisjoint(written):
            readers = [u for w in written for u in users.get((w, i), ())]
            # A tensor that is prepared and not read in this program is for the next step.
            if settling.issuperset(readers) and not (i in preparing and not readers):
                settling.add(i)
    return frozenset(settling)


def _requested_buffers(program: Program) -> tuple[int, ...]:
    """Return the buffers that are fetched or become state at the end of a step."""
    return (*program.fetches, *(end for _, end in program.state.values()))


def _find_users(operands: Sequence[tuple[BufferVersion, ...]]) -> dict[tuple[int, int], list[int]]:
    users: dict[tuple[int, int], list[int]] = {}
    for i, read in enumerate(operands):
        for o in read:
            users.setdefault(o, []).append(i)
    return users


def find_flows(dataflow: Dataflow) -> Iterator[KernelFlow]:
    """Yield every tensor transfer between kernels, and over the wafer's edge, in a step of pipelined mode.

    State and constants are stored with each reader, so they do not flow. A state that an update writes flows from the
    update to the other kernels that read its old value. A batch tensor flows to each reader, and a fetched one leaves
    once.
    """
    nbytes = dataflow.nbytes
    for (buffer, source), users in dataflow.users.items():
        # State and constants are stored with each reader and do not move.
        if source != EXTERNAL_SOURCE or dataflow.kind(buffer) == "batch":
            yield from (KernelFlow(source, i, nbytes[buffer]) for i in users)
    # A result that is fetched twice is sent once.
    for fetch in dict.fromkeys(dataflow.program.fetches):
        buffer, source = dataflow.final[fetch]
        if source != EXTERNAL_SOURCE:
            yield KernelFlow(source, EXTERNAL_SOURCE, nbytes[buffer])
    for start, end in dict.fromkeys(dataflow.program.state.values()):
        buffer, source = dataflow.final[end]
        if source != EXTERNAL_SOURCE:
            # The updating kernel has the new value already.
            yield from (
                KernelFlow(source, i, nbytes[buffer])
                for i in dataflow.users.get((start, EXTERNAL_SOURCE), ())
                if i != source
            )
