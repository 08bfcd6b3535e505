"""Queues, routers and switches, as compiled functions.

A lane is a colour or, if its switches change the source, a colour from one direction. Queue `j` of core `t` is that of
lane `j` at its router; from `nlanes` on, queues hold the wavelets that the core receives, one queue for each colour.
Every queue has one reader, which advances `head`, and one writer, which advances `tail`. Heads and tails count modulo
256.
"""

import numpy as np

from wse_sim.fabric.compiled import Int, Pointers, Truth, compile_expanded, compile_inlined, lowest_set_bit
from wse_sim.isa.record import (
    ADVANCE,
    ADVANCE_FLAG,
    COMMAND,
    COMMAND_BITS,
    COMMANDS_MASK,
    CONTROL_FLAG,
    CONTROLS,
    COPIED,
    COUNTERS_AT,
    GRANTS,
    IN_TRANSIT,
    LANE,
    LANE_COLOUR,
    LAST_SHIFT,
    LINKS,
    OUTPUTS,
    POSITION,
    PUSHED,
    RESET,
    RING_AT,
    ROUTER_HOLDS,
    ROUTER_MOVES,
    SOURCE_SHIFT,
    TASK_SHIFT,
    TEARDOWN,
    TIME,
    TORN_DOWN,
)


@compile_inlined
def queue_heads_offset(m: Pointers, t: Int) -> Int:
    """Return the byte offset of the heads of core `t`'s queues in the records."""
    return t * m.stride * 4 + m.depth


@compile_inlined
def is_queue_empty(m: Pointers, b: Int, j: Int) -> Truth:
    """Return whether queue `j` is empty; `b` is the byte offset of the heads of its core."""
    # Heads and tails count modulo 256 and are masked only to address a slot. So equal means empty, never full.
    return m.bytes[b + j] == m.bytes[b + m.queued + j]


@compile_inlined
def has_free_slot(m: Pointers, t: Int, j: Int) -> Truth:
    """Return whether queue `j` of core `t` has room for one more wavelet, by its own capacity."""
    b = queue_heads_offset(m, t) + j
    return ((m.bytes[b + m.queued] - m.bytes[b]) & 255) < m.bytes[b + 2 * m.queued]


@compile_inlined
def head_slot(m: Pointers, t: Int, j: Int) -> Int:
    """Return the offset of the stamp of the first wavelet in queue `j` of core `t`.

    The wavelet's value is the next word.
    """
    place = m.bytes[queue_heads_offset(m, t) + j] & m.mask
    return t * m.stride + m.queues + j * m.queue + RING_AT + 2 * place


@compile_inlined
def pop_wavelet(m: Pointers, t: Int, j: Int) -> None:
    """Remove the first wavelet of queue `j` of core `t`, which must not be empty; only the queue's reader
    may call this.
    """
    m.bytes[queue_heads_offset(m, t) + j] += 1


@compile_inlined
def push_wavelet(m: Pointers, t: Int, j: Int, value: Int, stamp: Int) -> None:
    """Append a wavelet with `value` and `stamp` to queue `j` of core `t`; only the queue's writer may call this.

    The stamp is the cycle of its arrival with flags. The queue must have a free slot; this is not checked.
    """
    b = queue_heads_offset(m, t) + m.queued + j
    q = t * m.stride + m.queues + j * m.queue
    slot = q + RING_AT + 2 * (m.bytes[b] & m.mask)
    m.ints[slot] = stamp
    m.ints[slot + 1] = value
    m.bytes[b] += 1


@compile_inlined
def count_push(m: Pointers, t: Int, j: Int) -> None:
    """Increase the counter of wavelets pushed to queue `j` of core `t`, for traffic statistics."""
    m.ints[t * m.stride + m.queues + j * m.queue + PUSHED] += 1


@compile_inlined
def neighbour_core(m: Pointers, t: Int, d: Int) -> Int:
    """Return the core next to `t` in direction `d`; `check` has rejected routes that leave the mesh."""
    return t - m.width if d == 0 else (t + 1 if d == 1 else (t + m.width if d == 2 else t - 1))


@compile_inlined
def outputs_offset(m: Pointers, t: Int) -> Int:
    """Return the byte offset of the current outputs of core `t`'s lanes."""
    return queue_heads_offset(m, t) + 3 * m.queued


@compile_inlined
def _all_outputs_free(m: Pointers, t: Int, j: Int, outs: Int) -> Truth:
    """Return whether all outputs `outs` (bits) of lane `j` at core `t` have room for a wavelet."""
    # All or nothing: a multicast that reached only some outputs would need a wavelet in two states.
    if outs & 16 and not has_free_slot(m, t, m.nlanes + m.lanes[j * LANE + LANE_COLOUR]):
        return False
    outs = outs & 15
    free = True
    while outs and free:
        d = lowest_set_bit(outs)
        outs &= outs - 1
        free = has_free_slot(m, neighbour_core(m, t, d), np.int64(m.lanes[j * LANE + d]))
    return free


@compile_inlined
def _occupied_lanes(m: Pointers, t: Int) -> Int:
    """Return the nonempty lanes of core `t`'s router as bits, also those whose first wavelet is still on the wire.

    Eight heads and eight tails are compared at once.
    """
    lanes, heads = np.int64(0), queue_heads_offset(m, t) >> 3
    for eight in range((m.nlanes + 7) >> 3):
        differ = m.longs[heads + eight] ^ m.longs[heads + eight + (m.queued >> 3)]
        while differ:
            byte = lowest_set_bit(differ) >> 3
            # Clear the whole byte: head and tail may differ in several bits.
            differ &= ~(np.int64(255) << 8 * byte)
            lanes |= np.int64(1) << (8 * eight + byte)
    # The last group of eight may contain the core's receive queues.
    return lanes & ((np.int64(1) << m.nlanes) - 1)


@compile_inlined
def _skips_ramp(m: Pointers, t: Int, j: Int) -> Truth:
    """Return whether the first wavelet of lane `j` is a control wavelet without a task, which no core receives."""
    slot = head_slot(m, t, j)
    return m.ints[slot] & CONTROL_FLAG != 0 and m.ints[slot + 1] >> TASK_SHIFT == 0


@compile_inlined
def decide_router(m: Pointers, t: Int, now: Int, first: Int) -> Int:
    """Store in GRANTS which lanes of a router forward a wavelet in this cycle, and return result bits (see `record`).

    Lanes are examined from `first` on. A lane forwards if its first wavelet has arrived, its switch has outputs, all of
    them have room, and no earlier lane uses the same link.
    """
    grant, used, result = 0, 0, 0
    waiting = _occupied_lanes(m, t)
    # Lanes below `first` come last: with a fixed order a busy colour could starve the others.
    later = waiting & ((1 << first) - 1)
    waiting ^= later
    o = outputs_offset(m, t)
    while waiting | later:
        if waiting == 0:
            waiting, later = later, 0
        j = lowest_set_bit(waiting)
        waiting &= waiting - 1
        result |= ROUTER_HOLDS
        # Still on the wire: the wavelet is in the queue that it travels to, with its cycle of arrival as the stamp.
        if m.ints[head_slot(m, t, j)] & TIME > now:
            result |= IN_TRANSIT
            continue
        # Without an output, or torn down: the wavelet waits for the switch to change.
        outs = m.bytes[o + j] & OUTPUTS
        if outs == 0:
            continue
        if _skips_ramp(m, t, j):
            # It is a command for switches only; no core would ever read it.
            outs &= ~16
        # A link carries one wavelet in a cycle, and an earlier lane uses it.
        if outs & used:
            continue
        if _all_outputs_free(m, t, j, outs):
            grant |= 1 << j
            used |= outs
            result |= ROUTER_MOVES
    # Phase 2 moves the wavelets, so neighbours still see the queues as at the start of the cycle.
    m.longs[(t * m.stride + GRANTS) >> 1] = grant
    return result


@compile_inlined
def set_switch(m: Pointers, t: Int, colour: Int, switch: Int) -> None:
    """Set the switch of `colour` (its number) at core `t` to the byte `switch`, and update the current outputs of its
    lanes.

    The byte has the position, the last position, and whether the switch is torn down, which leaves no outputs.
    """
    o = outputs_offset(m, t)
    m.bytes[o + m.nlanes + colour] = switch
    for j in range(m.nlanes):
        if m.lanes[j * LANE + LANE_COLOUR] == colour:
            # The routes of the four positions are the bytes of one word; the current one is stored where
            # `decide_router` reads it.
            route = m.ints[t * m.stride + m.positions + j] >> 8 * (switch & POSITION)
            m.bytes[o + j] = 0 if switch & TORN_DOWN else route & 255


@compile_inlined
def switch_byte(m: Pointers, t: Int, colour: Int) -> Int:
    """Return the byte of a colour's switch at core `t`: position, last position, torn down."""
    return m.bytes[outputs_offset(m, t) + m.nlanes + colour] & 255


@compile_inlined
def set_switch_position(m: Pointers, t: Int, colour: Int, position: Int) -> None:
    """Set the switch of `colour` (its number) at core `t` to `position`, and end a teardown.

    A wavelet of this colour that the router was to forward in this cycle waits, since the old route decided it.
    """
    grant = m.longs[(t * m.stride + GRANTS) >> 1]
    for j in range(m.nlanes):
        if m.lanes[j * LANE + LANE_COLOUR] == colour:
            grant &= ~(np.int64(1) << j)
    m.longs[(t * m.stride + GRANTS) >> 1] = grant
    # Configuring also ends a teardown.
    set_switch(m, t, colour, switch_byte(m, t, colour) & ~(POSITION | TORN_DOWN) | position)


@compile_inlined
def _apply_switch_command(m: Pointers, t: Int, colour: Int, command: Int) -> None:
    """Execute the `command` of a control wavelet on the switch of `colour` at core `t`: nop, advance, reset or
    teardown.

    An advance at the last position has no effect. A reset goes to position 0; it does not end a teardown.
    """
    switch = switch_byte(m, t, colour)
    position, last = switch & POSITION, switch >> LAST_SHIFT & POSITION
    # The public documentation describes no wrap-around, so a switch stays at its last position.
    if command == ADVANCE and position < last:
        set_switch(m, t, colour, switch + 1)
    elif command == RESET:
        set_switch(m, t, colour, switch & ~POSITION)
    elif command == TEARDOWN:
        set_switch(m, t, colour, switch | TORN_DOWN)


@compile_inlined
def _copy_count(outs: Int) -> Int:
    """Return the number of outputs minus one: how many more wavelets leave than entered."""
    return (outs & 1) + (outs >> 1 & 1) + (outs >> 2 & 1) + (outs >> 3 & 1) + (outs >> 4 & 1) - 1


@compile_inlined
def _forward_wavelet(m: Pointers, t: Int, j: Int, now: Int) -> Int:
    """Move the first wavelet of lane `j` at core `t` to all its outputs, and then execute its switch command or
    advance.

    Wavelets and copies are counted. A control wavelet without a task does not go to the core. Returns the link
    directions that it took, as bits.
    """
    slot, route = head_slot(m, t, j), m.bytes[outputs_offset(m, t) + j] & 255
    stamp, value = np.int64(m.ints[slot]), np.int64(m.ints[slot + 1])
    outs, source, colour = route & OUTPUTS, route >> SOURCE_SHIFT, np.int64(m.lanes[j * LANE + LANE_COLOUR])
    control = stamp & CONTROL_FLAG
    command = np.int64(0)
    if _skips_ramp(m, t, j):
        outs &= ~16
    if control:
        command = value & COMMAND
        # Each router takes the next two bits; the shift adds zeros, which are nops after the eighth command.
        value = value & ~COMMANDS_MASK | (value & COMMANDS_MASK) >> COMMAND_BITS
    counted = t * m.stride + COUNTERS_AT + LINKS
    if outs & 16:
        # To the core: after the ramp's latency. The count lets the core find control wavelets.
        push_wavelet(m, t, m.nlanes + colour, value, (now + m.ramp_down) | control)
        count_push(m, t, m.nlanes + colour)
        m.ints[counted + 4] += 1
        if control:
            m.ints[t * m.stride + CONTROLS] += 1
    links = outs & 15
    while links:
        d = lowest_set_bit(links)
        links &= links - 1
        # North and south are even, east and west odd: a route turns if the parities differ. From the core there is no
        # turn.
        turns = source < 4 and (source ^ d) & 1
        ready = now + m.hop + (m.turn if turns else 0)
        push_wavelet(m, neighbour_core(m, t, d), np.int64(m.lanes[j * LANE + d]), value, ready | control)
        m.ints[counted + d] += 1
    # Counted if the number of outputs is not one, so that sent + copied = received + left.
    if outs & (outs - 1) or outs == 0:
        m.ints[t * m.stride + m.queues + j * m.queue + COPIED] += _copy_count(outs)
    pop_wavelet(m, t, j)
    # Applied after forwarding: a command affects the wavelets after it.
    if control:
        _apply_switch_command(m, t, colour, command)
    if stamp & ADVANCE_FLAG:
        _apply_switch_command(m, t, colour, np.int64(ADVANCE))
    return outs & 15


@compile_expanded
def commit_router(m: Pointers, t: Int, now: Int) -> Int:
    """Move the wavelets that `decide_router` granted at core `t`.

    Return the link directions that were used, as bits.
    """
    grant, went, j = m.longs[(t * m.stride + GRANTS) >> 1], np.int64(0), np.int64(0)
    while grant:
        if grant & 1:
            went |= _forward_wavelet(m, t, j, now)
        grant >>= 1
        j += 1
    return went
