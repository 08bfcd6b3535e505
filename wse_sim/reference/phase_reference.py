"""The NumPy reference of a phase program: what it does to the memories of the PEs.

A memory has the shape [height, width, words]: memory[y, x] are the words of the PE in column x and row y. Moves carry
words between PEs, and `Local` computes on them. `Compute` only has a cost and changes no word.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.cost_model.collectives import shift_pairs
from wse_sim.cost_model.reduction_tree import choose_plane, choose_reduce, generate_tree
from wse_sim.fabric.lowering.streams import make_stream_feed
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.isa.packing import as_words, pack, round_values, unpack
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Local, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream
from wse_sim.reference.core_reference import run_local

MIN_TREE_PES = 3
"""Minimum number of PEs of a line for which generated trees differ from a chain."""


def apply(phase: Phase, memory: np.ndarray, machine: Machine | str | None = None) -> np.ndarray:
    """Return the memories after a phase program; `memory` [height, width, words] of 32-bit words is not changed.

    Parts of a `Par` are applied one after another. The result is equal to that of concurrent parts if no part reads
    what another one writes, which holds for every program whose result does not depend on timing. A reduction adds in
    the order of its algorithm. If it names none, it adds in the order of the fastest on `machine`, or of a chain if
    `machine` is None. With `machine`, a machine or its name, the result has the same bits as the wavelet simulation.
    Raises LazyError for an access outside the memory.
    """
    # A copy as bits, so that the caller's memories do not change and 16-bit types keep their bits.
    words = as_words(memory)
    _apply_in_place(phase, words, None if machine is None else Machine.of(machine))
    return words.view(memory.dtype)


def _apply_in_place(phase: Phase, words: np.ndarray, machine: Machine | None) -> None:
    """Apply a phase program to `words` [height, width, words] in place. A `Compute` changes nothing; see `apply`."""
    match phase:
        case Seq(parts) | Par(parts) | Rounds(parts=parts):
            for part in parts:
                _apply_in_place(part, words, machine)
        case Repeat(times, body):
            for _ in range(times):
                _apply_in_place(body, words, machine)
        case Local(rect, body):
            rows, columns = _rect_slices(rect)
            words[rows, columns] = run_local(body, words[rows, columns])
        case Shift():
            _apply_shift(phase, words)
        case Broadcast():
            _apply_broadcast(phase, words)
        case Reduce():
            _apply_reduce(phase, words, machine)
        case AllReduce():
            _apply_all_reduce(phase, words, machine)
        case Stream():
            _apply_stream(phase, words)


def _rect_slices(rect: Rect) -> tuple[slice, slice]:
    """Return the row and column slices of a rectangle."""
    return slice(rect.y, rect.y + rect.height), slice(rect.x, rect.x + rect.width)


def _line_views(words: np.ndarray, rect: Rect, axis: str, groups: int = 1) -> Iterator[np.ndarray]:
    """Yield, for each group, a view [lines, positions, words] of its part of all lines of `rect` along `axis`.

    PEs that are left over after the last group are in no view. `axis` is "x" or "y".
    """
    tile = words[_rect_slices(rect)]
    if axis == "y":
        tile = tile.swapaxes(0, 1)
    length = tile.shape[1] // groups
    for group in range(groups):
        yield tile[:, group * length : (group + 1) * length]


def _word_slice(words: np.ndarray, address: int, count: int, stride: int = 1) -> slice:
    """Return the slice of `count` words from `address` on, `stride` apart.

    Raises LazyError if the memory has fewer, or if `address` is negative.
    """
    end = address + ((count - 1) * stride + 1 if count else 0)
    if address < 0 or end > words.shape[-1]:
        what = f"the phase uses words {address} to {end - 1} of {words.shape[-1]}"
        raise LazyError(what, hint="Use addresses inside the memory.")
    return slice(address, end, stride)


def _apply_shift(phase: Shift, words: np.ndarray) -> None:
    """Apply a shift in place: all PEs send before anything is stored.

    PEs that receive nothing keep their words. A ring of one PE copies from `take` to `put`.
    """
    take = _word_slice(words, phase.take, phase.words, phase.take_stride)
    put = _word_slice(words, phase.put, phase.words, phase.put_stride)
    for lines in _line_views(words, phase.rect, phase.axis):
        # All PEs send before anything arrives; the lowering ensures the same by copying words that would be
        # overwritten.
        sent = lines[..., take].copy()
        pairs = shift_pairs(lines.shape[1], phase.hops, phase.wrap)
        # A ring of one PE sends to itself.
        if phase.wrap and not pairs:
            lines[..., put] = sent
        for sender, receiver in pairs:
            lines[:, receiver, put] = sent[:, sender]


def _apply_broadcast(phase: Broadcast, words: np.ndarray) -> None:
    """Apply a broadcast in place; the sender gets its words at `put` too."""
    take, put = _word_slice(words, phase.take, phase.words), _word_slice(words, phase.put, phase.words)
    if phase.axis == "xy":
        tile = words[_rect_slices(phase.rect)]
        tile[..., put] = tile[divmod(phase.source, phase.rect.width)][take].copy()
        return
    for lines in _line_views(words, phase.rect, phase.axis, phase.groups):
        lines[..., put] = lines[:, phase.source, None, take].copy()


def _apply_stream(phase: Stream, words: np.ndarray) -> None:
    """Copy the blocks between the PEs of a rectangle and the line of cores next to it, in place.

    Without bytes nothing is done. Raises LazyError if there is no line of cores for the stream.
    """
    if not phase.bytes:
        return
    feed = make_stream_feed(phase, words.shape[1], words.shape[0])
    feeder_x, feeder_y = feed.lines.cells([feed.feeder])
    for position, share, offset in zip(feed.near, feed.shares, feed.offsets, strict=True):
        x, y = feed.lines.cells([position])
        own, theirs = _word_slice(words, phase.at, share), _word_slice(words, phase.at + offset, share)
        if phase.direction == "in":
            words[y, x, own] = words[feeder_y, feeder_x, theirs]
        else:
            words[feeder_y, feeder_x, theirs] = words[y, x, own]


def _apply_all_reduce(phase: AllReduce, words: np.ndarray, machine: Machine | None) -> None:
    """Apply an all-reduce in place: a reduction and a broadcast of its result, or a ring.

    The order of additions is that of the algorithm; see `apply`.
    """
    if phase.algorithm == "ring":
        _apply_ring(phase, words)
        return
    same = phase.rect, phase.axis, phase.words, phase.groups
    _apply_reduce(
        Reduce(
            *same, algorithm=phase.algorithm, size=phase.size, at=phase.at, dtype=phase.dtype, combine=phase.combine
        ),
        words,
        machine,
    )
    _apply_broadcast(Broadcast(*same, take=phase.at, put=phase.at), words)


def _apply_ring(phase: AllReduce, words: np.ndarray) -> None:
    """Apply a ring all-reduce in place; all PEs of a line get the result.

    The words are cut into as many parts as PEs. Part k is added up around the folded ring, from PE k on to PE k - 1.
    Over "xy" there are rings along the rows and then along the columns.
    """
    if phase.axis == "xy":
        for axis in "xy":
            _apply_ring(replace(phase, axis=axis), words)
        return
    for lines in _line_views(words, phase.rect, phase.axis, phase.groups):
        pes = lines.shape[1]
        ring = [*range(0, pes, 2), *reversed(range(1, pes, 2))]
        for k in range(pes):
            start, end = (phase.words * n // pes for n in (k, k + 1))
            at = _word_slice(words, phase.at + start, end - start)
            # `values` are listed from the last PE of the turn, k - 1, back to the first one, k: a chain adds them in
            # ring order.
            values = [_unpack_values(lines[:, ring[(k - 1 - n) % pes], at], phase) for n in range(pes)]
            lines[..., at] = pack(combine_along_tree(values, range(-1, pes - 1), phase), phase.dtype)[:, None]


def _apply_reduce(phase: Reduce, words: np.ndarray, machine: Machine | None) -> None:
    """Apply a reduction in place; only position 0 of each line gets the result, and other PEs keep their words.

    Over "xy" it is along all rows and then the first column, or one chain of all PEs, and PE (0, 0) gets the result.
    """
    if phase.axis == "xy":
        rect = phase.rect
        if machine and rect.area > 1 and choose_plane(rect, phase.words, phase.algorithm, machine) == "snake":
            _apply_snake_reduce(phase, words)
            return
        # The order of additions changes the bits, so axes, trees and chains are the same as in the lowering.
        _apply_reduce(replace(phase, axis="x"), words, machine)
        _apply_reduce(replace(phase, axis="y", rect=Rect(rect.x, rect.y, 1, rect.height)), words, machine)
        return
    at = _word_slice(words, phase.at, phase.words)
    for lines in _line_views(words, phase.rect, phase.axis, phase.groups):
        values = [_unpack_values(lines[:, i, at], phase) for i in range(lines.shape[1])]
        total = combine_along_tree(values, _reduction_parents(phase, len(values), machine), phase)
        lines[:, 0, at] = pack(total, phase.dtype)


def _apply_snake_reduce(phase: Reduce, words: np.ndarray) -> None:
    """Reduce all PEs of a rectangle by one chain, in place; only the upper left PE gets the result.

    The chain runs along the longer axis and back, line after line; a square counts as wide.
    """
    at, tile = _word_slice(words, phase.at, phase.words), words[_rect_slices(phase.rect)]
    lines = tile if phase.rect.width >= phase.rect.height else tile.swapaxes(0, 1)
    order = [line[:: -1 if i % 2 else 1, at] for i, line in enumerate(lines)]
    values = [_unpack_values(one, phase) for line in order for one in line]
    tile[0, 0, at] = pack(combine_along_tree(values, range(-1, len(values) - 1), phase), phase.dtype)


def _unpack_values(words: np.ndarray, phase: Reduce | AllReduce) -> np.ndarray:
    return unpack(words, phase.dtype, words.shape[-1] * WORD_BYTES // ITEM_BYTES[phase.dtype])


def _reduction_parents(phase: Reduce, pes: int, machine: Machine | None) -> Sequence[int]:
    """Return for each PE of a line the PE that it sends its sum to, -1 for the first.

    `machine` is needed to choose an algorithm if the phase names none, and for "auto_gen"; without it these are a
    chain.
    """
    name = phase.algorithm
    if machine and not name:
        name = choose_reduce(pes, phase.words, machine)
    if name == "star":
        return [min(i, 1) - 1 for i in range(pes)]
    if name == "tree":
        return [(i & (i - 1)) if i else -1 for i in range(pes)]
    if name == "two_phase":
        # The same choice as in `collectives.two_phase_terms` and in the lowering.
        size = phase.size or max(1, round(pes**0.5))
        return [i - 1 if i % size else i - size if i else -1 for i in range(pes)]
    if name == "auto_gen" and machine and pes >= MIN_TREE_PES:
        return generate_tree(pes, phase.words, machine)
    return range(-1, pes - 1)


def combine_along_tree(values: Sequence[np.ndarray], parents: Sequence[int], phase: Reduce | AllReduce) -> np.ndarray:
    """Return the combined words at position 0 of a line, as values that are rounded to the type of `phase` each time.

    `parents[i]` is the position that PE i sends to, or -1; it is smaller than i. Every PE combines its own words with
    those of its senders, in the order of their positions, by addition or maximum.
    """
    # From the far end: all senders of a PE are complete before its turn, since a parent has a smaller position.
    senders: list[list[int]] = [[] for _ in values]
    for position, parent in enumerate(parents):
        if parent >= 0:
            senders[parent].append(position)
    totals = list(values)
    for position in reversed(range(len(values))):
        for sender in senders[position]:
            totals[position] = _combine_pair(totals[position], totals[sender], phase)
    return totals[0]


def _combine_pair(a: np.ndarray, b: np.ndarray, phase: Reduce | AllReduce) -> np.ndarray:
    with np.errstate(all="ignore"):
        return round_values(np.maximum(a, b) if phase.combine == "max" else a + b, phase.dtype)
