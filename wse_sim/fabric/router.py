"""Queues, routers and their switches, as compiled leaves.

A lane is a colour, or a colour as it comes from one direction where its switches change the source. Queue `j` of core
`t` is that of lane `j` at its router, or, from `nlanes` on, what the router gave the core on a colour. Every queue has
one reader, which alone advances `head`, and one writer, which alone advances `tail`. Heads and tails count modulo 256.
"""

import numpy as np

from wse_sim.fabric.compiled import leaf, lowest_bit, woven
from wse_sim.isa.record import (
    ADVANCE,
    ADVANCE_FLAG,
    COMMAND,
    COMMAND_BITS,
    COMMANDS_MASK,
    CONTROL_FLAG,
    CONTROLS,
    COPIED,
    COUNTED,
    GRANTS,
    KEPT,
    LANE,
    LANE_COLOUR,
    LAST_SHIFT,
    LINKS,
    MOVES,
    OUTPUTS,
    POSITION,
    PUSHED,
    RESET,
    RING_AT,
    SOURCE_SHIFT,
    TASK_SHIFT,
    TEARDOWN,
    TIME,
    TORN,
    TRAVELS,
)


@leaf
def bytes_at(m, t):
    """Where the heads of a core's queues begin."""
    return t * m.stride * 4 + m.depth


@leaf
def is_empty(m, b, j):
    return m.bytes[b + j] == m.bytes[b + m.queued + j]


@leaf
def has_room(m, t, j):
    b = bytes_at(m, t) + j
    return ((m.bytes[b + m.queued] - m.bytes[b]) & 255) < m.bytes[b + 2 * m.queued]


@leaf
def slot_of_head(m, t, j):
    """Where the stamp of a queue's first wavelet lies; its value follows."""
    place = m.bytes[bytes_at(m, t) + j] & m.mask
    return t * m.stride + m.queues + j * m.queue + RING_AT + 2 * place


@leaf
def pop(m, t, j):
    m.bytes[bytes_at(m, t) + j] += 1


@leaf
def push(m, t, j, value, stamp):
    b = bytes_at(m, t) + m.queued + j
    q = t * m.stride + m.queues + j * m.queue
    slot = q + RING_AT + 2 * (m.bytes[b] & m.mask)
    m.ints[slot] = stamp
    m.ints[slot + 1] = value
    m.bytes[b] += 1


@leaf
def count_push(m, t, j):
    m.ints[t * m.stride + m.queues + j * m.queue + PUSHED] += 1


@leaf
def neighbour(m, t, d):
    return t - m.width if d == 0 else (t + 1 if d == 1 else (t + m.width if d == 2 else t - 1))


@leaf
def outputs_at(m, t):
    """Where the outputs of a core's lanes begin."""
    return bytes_at(m, t) + 3 * m.queued


@leaf
def _all_free(m, t, j, outs):
    """Whether all of a lane's outputs have room."""
    if outs & 16 and not has_room(m, t, m.nlanes + m.lanes[j * LANE + LANE_COLOUR]):
        return False
    outs = outs & 15
    free = True
    while outs and free:
        d = lowest_bit(outs)
        outs &= outs - 1
        free = has_room(m, neighbour(m, t, d), np.int64(m.lanes[j * LANE + d]))
    return free


@leaf
def _lanes_that_hold(m, t):
    """The lanes of a router that are not empty, as bits. Eight heads and eight tails are compared at once."""
    found, heads = np.int64(0), bytes_at(m, t) >> 3
    for eight in range((m.nlanes + 7) >> 3):
        differ = m.longs[heads + eight] ^ m.longs[heads + eight + (m.queued >> 3)]
        while differ:
            byte = lowest_bit(differ) >> 3
            differ &= ~(np.int64(255) << 8 * byte)
            found |= np.int64(1) << (8 * eight + byte)
    return found & ((np.int64(1) << m.nlanes) - 1)


@leaf
def _goes_up_no_ramp(m, t, j):
    """Whether the first wavelet of a lane is a control wavelet without a task."""
    slot = slot_of_head(m, t, j)
    return m.ints[slot] & CONTROL_FLAG != 0 and m.ints[slot + 1] >> TASK_SHIFT == 0


@leaf
def decide(m, t, now, first):
    """Note the lanes that a router passes on in this cycle; it begins to look at lane `first`. Returns result bits."""
    grant, used, result = 0, 0, 0
    held = _lanes_that_hold(m, t)
    later = held & ((1 << first) - 1)
    held ^= later
    o = outputs_at(m, t)
    while held | later:
        if held == 0:
            held, later = later, 0
        j = lowest_bit(held)
        held &= held - 1
        result |= KEPT
        if m.ints[slot_of_head(m, t, j)] & TIME > now:
            result |= TRAVELS
            continue
        outs = m.bytes[o + j] & OUTPUTS
        if outs == 0:
            continue
        if _goes_up_no_ramp(m, t, j):
            outs &= ~16
        if outs & used:
            continue
        if _all_free(m, t, j, outs):
            grant |= 1 << j
            used |= outs
            result |= MOVES
    m.longs[(t * m.stride + GRANTS) >> 1] = grant
    return result


@leaf
def put_switch(m, t, colour, switch):
    """Set a switch and the outputs of its lanes."""
    o = outputs_at(m, t)
    m.bytes[o + m.nlanes + colour] = switch
    for j in range(m.nlanes):
        if m.lanes[j * LANE + LANE_COLOUR] == colour:
            route = m.ints[t * m.stride + m.positions + j] >> 8 * (switch & POSITION)
            m.bytes[o + j] = 0 if switch & TORN else route & 255


@leaf
def switch_of(m, t, colour):
    return m.bytes[outputs_at(m, t) + m.nlanes + colour] & 255


@leaf
def turn_switch_to(m, t, colour, position):
    """Do what a core configures. What its router was to pass on in this cycle waits: the old route decided it."""
    grant = m.longs[(t * m.stride + GRANTS) >> 1]
    for j in range(m.nlanes):
        if m.lanes[j * LANE + LANE_COLOUR] == colour:
            grant &= ~(np.int64(1) << j)
    m.longs[(t * m.stride + GRANTS) >> 1] = grant
    put_switch(m, t, colour, switch_of(m, t, colour) & ~(POSITION | TORN) | position)


@leaf
def _turn_switch(m, t, colour, command):
    """Do what a control wavelet says. After its last position a switch stays where it is."""
    switch = switch_of(m, t, colour)
    position, last = switch & POSITION, switch >> LAST_SHIFT & POSITION
    if command == ADVANCE and position < last:
        put_switch(m, t, colour, switch + 1)
    elif command == RESET:
        put_switch(m, t, colour, switch & ~POSITION)
    elif command == TEARDOWN:
        put_switch(m, t, colour, switch | TORN)


@leaf
def _copies(outs):
    """How many more wavelets go on than came."""
    return (outs & 1) + (outs >> 1 & 1) + (outs >> 2 & 1) + (outs >> 3 & 1) + (outs >> 4 & 1) - 1


@leaf
def _pass_on(m, t, j, now):
    """Move the first wavelet of a lane. Returns the directions in which it went, as bits."""
    slot, route = slot_of_head(m, t, j), m.bytes[outputs_at(m, t) + j] & 255
    stamp, value = np.int64(m.ints[slot]), np.int64(m.ints[slot + 1])
    outs, source, colour = route & OUTPUTS, route >> SOURCE_SHIFT, np.int64(m.lanes[j * LANE + LANE_COLOUR])
    control = stamp & CONTROL_FLAG
    command = np.int64(0)
    if _goes_up_no_ramp(m, t, j):
        outs &= ~16
    if control:
        command = value & COMMAND
        value = value & ~COMMANDS_MASK | (value & COMMANDS_MASK) >> COMMAND_BITS
    counted = t * m.stride + COUNTED + LINKS
    if outs & 16:
        push(m, t, m.nlanes + colour, value, (now + m.ramp) | control)
        count_push(m, t, m.nlanes + colour)
        m.ints[counted + 4] += 1
        if control:
            m.ints[t * m.stride + CONTROLS] += 1
    links = outs & 15
    while links:
        d = lowest_bit(links)
        links &= links - 1
        turns = source < 4 and (source ^ d) & 1
        ready = now + m.hop + (m.turn if turns else 0)
        push(m, neighbour(m, t, d), np.int64(m.lanes[j * LANE + d]), value, ready | control)
        m.ints[counted + d] += 1
    if outs & (outs - 1) or outs == 0:
        m.ints[t * m.stride + m.queues + j * m.queue + COPIED] += _copies(outs)
    pop(m, t, j)
    if control:
        _turn_switch(m, t, colour, command)
    if stamp & ADVANCE_FLAG:
        _turn_switch(m, t, colour, np.int64(ADVANCE))
    return outs & 15


@woven
def commit(m, t, now):
    """Move what a router decided to pass on. Returns the directions in which something went, as bits."""
    grant, went, j = m.longs[(t * m.stride + GRANTS) >> 1], np.int64(0), np.int64(0)
    while grant:
        if grant & 1:
            went |= _pass_on(m, t, j, now)
        grant >>= 1
        j += 1
    return went
