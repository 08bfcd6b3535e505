"""Which tensors of a program's state belong together: a parameter and the slots that its optimizer keeps for it."""

from lazytensor.ir.program import Program


def state_groups(program: Program) -> dict[int, int]:
    """Buffer of each state at the start of a step -> that of its parameter, which is itself for parameters.

    State of one size that the same update touches is one group, and the parameter is the first of them that anything
    but an update reads; a mask beside it is none.
    """
    leader = {start: start for start, _ in program.state.values()}
    starts = {**{end: start for start, end in program.state.values()}, **{start: start for start in leader}}
    types = [b.type for b in program.buffers]

    def find(b: int) -> int:
        while leader[b] != b:
            leader[b] = leader[leader[b]]
            b = leader[b]
        return b

    # What a forward or backward kernel reads is a parameter or a statistic; slots are read by updates alone.
    in_sweeps: set[int] = set()
    for instr in program.instrs:
        if instr.direction != "update":
            in_sweeps.update(instr.reads)
            continue
        # Scalars, such as a count of steps, are read by the updates of all parameters and would tie them together.
        touched = dict.fromkeys(starts[b] for b in (*instr.reads, *instr.writes) if b in starts and types[b].size > 1)
        by_size: dict[int, int] = {}
        for b in touched:
            first = by_size.setdefault(types[b].size, b)
            leader[find(b)] = find(first)
    members: dict[int, list[int]] = {}
    for b in leader:
        members.setdefault(find(b), []).append(b)
    groups: dict[int, int] = {}
    for group in members.values():
        parameter = min(group, key=lambda b: (b not in in_sweeps, not types[b].dtype.is_floating_point, b))
        groups.update(dict.fromkeys(group, parameter))
    return groups
