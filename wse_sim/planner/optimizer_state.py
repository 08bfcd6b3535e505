"""Find the optimizer slots that belong to each parameter of a program."""

from lazytensor.ir.program import Program


def state_groups(program: Program) -> dict[int, int]:
    """Return, for each state buffer at the start of a step, the buffer of its parameter (itself for a parameter).

    States of equal size that one update reads or writes form a group. One-element states are groups by themselves. The
    parameter is a state of the group that a forward or backward instruction reads. Among several, or if none is read
    so, floating-point states come first, then the lowest index.
    """
    leader = {start: start for start, _ in program.state.values()}
    starts = {**{end: start for start, end in program.state.values()}, **{start: start for start in leader}}
    types = [b.type for b in program.buffers]

    def find(b: int) -> int:
        while leader[b] != b:
            leader[b] = leader[leader[b]]
            b = leader[b]
        return b

    # Parameters and statistics are read by forward or backward kernels, slots by updates only.
    in_sweeps: set[int] = set()
    for instr in program.instrs:
        if instr.direction != "update":
            in_sweeps.update(instr.reads)
            continue
        # Leave out scalars, such as a step count: they would join the groups of all parameters.
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
