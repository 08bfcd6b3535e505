"""The data reading of a phase program: what it does to the memories of the PEs, with NumPy.

A memory is [height, width, words]: the words of the PE in column x and row y are memory[y, x]. Only moves carry words
between PEs, and only `Local` computes on them: `Compute` is a price and leaves every word as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.cost_model.collectives import shift_pairs
from wse_sim.cost_model.reduction_tree import choose_all_reduce, choose_plane, choose_reduce, generate_tree
from wse_sim.fabric.lowering.streams import make_stream_feed
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.isa.packing import as_words, pack, round_values, unpack
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Local, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream
from wse_sim.reference.core_reference import run_local

MIN_TREE_PES = 3
"""PEs of a line from which on a generated tree has a choice."""


def apply(phase: Phase, memory: np.ndarray, machine: Machine | None = None) -> np.ndarray:
    """The memories after a phase program; `memory` [height, width, words] of 32-bit words stays as it is.

    Parts of a `Par` are taken one after another. That is the same as at once as long as none reads what another
    writes, which holds for every program whose meaning does not depend on timing. A reduction adds in the order of its
    algorithm; where it has no name, in that of a chain, or of what is fastest on `machine`. Then the sums are those of
    the wavelets to the last bit. Raises LazyError for what leaves the memory.
    """
    # A copy: the caller's memories stay as they were, and 16-bit types keep their bits.
    words = as_words(memory)
    _apply_in_place(phase, words, machine)
    return words.view(memory.dtype)


def _apply_in_place(phase: Phase, words: np.ndarray, machine: Machine | None) -> None:
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
    """Rows and columns of a rectangle."""
    return slice(rect.y, rect.y + rect.height), slice(rect.x, rect.x + rect.width)


def _line_views(words: np.ndarray, rect: Rect, axis: str, groups: int = 1) -> Iterator[np.ndarray]:
    """Views [lines, positions, words] of a memory: all lines of `rect` along an axis, group by group."""
    tile = words[_rect_slices(rect)]
    if axis == "y":
        tile = tile.swapaxes(0, 1)
    length = tile.shape[1] // groups
    for group in range(groups):
        yield tile[:, group * length : (group + 1) * length]


def _word_slice(words: np.ndarray, address: int, count: int) -> slice:
    """The words from `address` on. Raises LazyError if the memory has fewer."""
    if address < 0 or address + count > words.shape[-1]:
        last = address + count - 1
        raise LazyError(f"words {address} to {last} of {words.shape[-1]}", hint="Stay inside the memory.")
    return slice(address, address + count)


def _apply_shift(phase: Shift, words: np.ndarray) -> None:
    take, put = _word_slice(words, phase.take, phase.words), _word_slice(words, phase.put, phase.words)
    for lines in _line_views(words, phase.rect, phase.axis):
        # All send what they hold before anything arrives, as the lowering makes sure by a copy out of the way.
        sent = lines[..., take].copy()
        pairs = shift_pairs(lines.shape[1], phase.hops, phase.wrap)
        # A ring of one PE sends to itself.
        if phase.wrap and not pairs:
            lines[..., put] = sent
        for sender, receiver in pairs:
            lines[:, receiver, put] = sent[:, sender]


def _apply_broadcast(phase: Broadcast, words: np.ndarray) -> None:
    take, put = _word_slice(words, phase.take, phase.words), _word_slice(words, phase.put, phase.words)
    if phase.axis == "xy":
        tile = words[_rect_slices(phase.rect)]
        tile[..., put] = tile[divmod(phase.source, phase.rect.width)][take].copy()
        return
    for lines in _line_views(words, phase.rect, phase.axis, phase.groups):
        lines[..., put] = lines[:, phase.source, None, take].copy()


def _apply_stream(phase: Stream, words: np.ndarray) -> None:
    """Blocks between the PEs of a rectangle and the line of cores beside it."""
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
    """A reduction and a broadcast; or the ring, which is a reduction of each part in an order of its own."""
    if _is_ring(phase, machine):
        _apply_ring(phase, words)
        return
    same = phase.rect, phase.axis, phase.words, phase.groups
    name = "" if phase.algorithm == "ring" else phase.algorithm
    _apply_reduce(
        Reduce(*same, algorithm=name, size=phase.size, at=phase.at, dtype=phase.dtype, combine=phase.combine),
        words,
        machine,
    )
    _apply_broadcast(Broadcast(*same, take=phase.at, put=phase.at), words)


def _is_ring(phase: AllReduce, machine: Machine | None) -> bool:
    if phase.algorithm or phase.axis == "xy" or not machine:
        return phase.algorithm == "ring"
    pes = (phase.rect.width if phase.axis == "x" else phase.rect.height) // phase.groups
    return choose_all_reduce(pes, phase.words, machine) == "ring"


def _apply_ring(phase: AllReduce, words: np.ndarray) -> None:
    """Part k of the words begins at PE k of the folded ring and is complete when it comes to the one before."""
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
            # Part k starts at the PE after its own and is complete after a whole turn: that is the order of its
            # additions.
            values = [_unpack_values(lines[:, ring[(k - 1 - n) % pes], at], phase) for n in range(pes)]
            lines[..., at] = pack(combine_along_tree(values, range(-1, pes - 1), phase), phase.dtype)[:, None]


def _apply_reduce(phase: Reduce, words: np.ndarray, machine: Machine | None) -> None:
    """Along an axis; over a rectangle along its rows, then down the first column, or in one chain through all PEs."""
    if phase.axis == "xy":
        rect = phase.rect
        if machine and rect.area > 1 and choose_plane(rect, phase.words, phase.algorithm, machine) == "snake":
            _apply_snake_reduce(phase, words)
            return
        # Order matters in floating point: the same axes, trees and chains as the lowering takes, or bits would differ.
        _apply_reduce(replace(phase, axis="x"), words, machine)
        _apply_reduce(replace(phase, axis="y", rect=Rect(rect.x, rect.y, 1, rect.height)), words, machine)
        return
    at = _word_slice(words, phase.at, phase.words)
    for lines in _line_views(words, phase.rect, phase.axis, phase.groups):
        values = [_unpack_values(lines[:, i, at], phase) for i in range(lines.shape[1])]
        total = combine_along_tree(values, _reduction_parents(phase, len(values), machine), phase)
        lines[:, 0, at] = pack(total, phase.dtype)


def _apply_snake_reduce(phase: Reduce, words: np.ndarray) -> None:
    """Along the longer axis of a rectangle and back, line after line."""
    at, tile = _word_slice(words, phase.at, phase.words), words[_rect_slices(phase.rect)]
    lines = tile if phase.rect.width >= phase.rect.height else tile.swapaxes(0, 1)
    order = [line[:: -1 if i % 2 else 1, at] for i, line in enumerate(lines)]
    values = [_unpack_values(one, phase) for line in order for one in line]
    tile[0, 0, at] = pack(combine_along_tree(values, range(-1, len(values) - 1), phase), phase.dtype)


def _unpack_values(words: np.ndarray, phase: Reduce | AllReduce) -> np.ndarray:
    return unpack(words, phase.dtype, words.shape[-1] * WORD_BYTES // ITEM_BYTES[phase.dtype])


def _reduction_parents(phase: Reduce, pes: int, machine: Machine | None) -> Sequence[int]:
    """Whom each PE of a line gives its sum, -1 for the first."""
    name = phase.algorithm
    if machine and not name:
        name = choose_reduce(pes, phase.words, machine)
    if name == "star":
        return [min(i, 1) - 1 for i in range(pes)]
    if name == "tree":
        return [(i & (i - 1)) if i else -1 for i in range(pes)]
    if name == "two_phase":
        # As `collectives.two_phase_terms` and the lowering choose it.
        size = phase.size or max(1, round(pes**0.5))
        return [i - 1 if i % size else i - size if i else -1 for i in range(pes)]
    if name == "auto_gen" and machine and pes >= MIN_TREE_PES:
        return generate_tree(pes, phase.words, machine)
    return range(-1, pes - 1)


def combine_along_tree(values: Sequence[np.ndarray], parents: Sequence[int], phase: Reduce | AllReduce) -> np.ndarray:
    """What comes to position 0: every PE combines its own with what its senders give, in the order of their positions.

    A parent stands before its senders.
    """
    # From the far end: when a PE's turn comes all its senders are complete, since a parent stands before them.
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
