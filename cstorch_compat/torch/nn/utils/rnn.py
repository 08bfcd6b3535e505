"""Batches of sequences with different lengths: padded to one tensor, or packed without padding.

The data of a packed batch holds, for each time step, the rows of the sequences that have not ended. Longer sequences
come first.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, from_array
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.functional.creation import full, tensor
from lazytensor.functional.indexing import getitem
from lazytensor.functional.joining_and_splitting import cat, stack
from lazytensor.functional.views import transpose


class PackedSequence(NamedTuple):
    """A packed batch of sequences.

    - `data`: the rows of all time steps, one step after another.
    - `batch_sizes`: the number of sequences at each time step.
    - `sorted_indices`: the permutation that sorts the sequences by length, or None.
    - `unsorted_indices`: the inverse permutation, or None.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """Return the batch with its data converted as by `Tensor.to`."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cpu(self) -> "PackedSequence":
        """Return the batch with its data on the CPU."""
        return self.to("cpu")

    @property
    def is_cuda(self) -> bool:
        """Return False."""
        return False

    # The following methods are used by recurrent layers.

    def lengths(self) -> np.ndarray:
        """Return the length of each sequence, in descending order."""
        sizes = self.batch_sizes.array()
        lengths: np.ndarray = (sizes[None, :] > np.arange(sizes[0])[:, None]).sum(1)
        return lengths

    def padded(self, padding: float = 0.0, total: int | None = None) -> Tensor:
        """Return the padded batch [T, B, ...] in descending order of length.

        `total` is T; by default the length of the longest sequence.
        """
        sizes, data = self.batch_sizes.array(), self.data
        going_on = np.pad(sizes, (0, (total or len(sizes)) - len(sizes)))
        at_work = np.arange(sizes[0])[None, :] < going_on[:, None]
        # An additional row of padding is used for all positions beyond the end of a sequence.
        rows = np.full(at_work.shape, int(sizes.sum()), np.int64)
        rows[at_work] = np.arange(int(sizes.sum()))
        fill = full((1, *data.spec.shape[1:]), padding, dtype=data.dtype, device=data.device)
        return getitem(cat([data, fill]), _to_index_tensor(rows))

    def repacked(self, padded: Tensor) -> "PackedSequence":
        """Return the packed form of another padded batch [T, B, ...] with the same lengths and order."""
        sizes = self.batch_sizes.array()
        times, places = np.nonzero(np.arange(sizes[0])[None, :] < sizes[:, None])
        return self._replace(data=getitem(padded, (_to_index_tensor(times), _to_index_tensor(places))))


def _to_index_tensor(values: np.ndarray) -> Tensor:
    return from_array(np.asarray(values, np.int64), dt.int64)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse permutation, or None for None."""
    return None if permutation is None else _to_index_tensor(np.argsort(permutation.array(), kind="stable"))


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return the packed form of a batch [T, B, ...] ([B, T, ...] with `batch_first`) of sequences of the given lengths.

    Raises RuntimeError if a length is not positive, or if the number of lengths is not B. With `enforce_sorted`,
    lengths that are not in descending order raise RuntimeError too.
    """
    sizes = lengths.array() if isinstance(lengths, Tensor) else np.asarray([int(n) for n in lengths], np.int64)
    x = transpose(input, 0, 1) if batch_first else input
    order: Tensor | None = None
    if enforce_sorted:
        if (np.diff(sizes) > 0).any():
            raise ShapeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
                "you do not need ONNX exportability.",
                where=source.where(),
                hint="Pass enforce_sorted=False, or sort the sequences by length.",
            )
    else:
        order = _to_index_tensor(np.argsort(-sizes, kind="stable"))
        sizes, x = sizes[order.array()], getitem(x, (slice(None), order))
    if sizes.size != x.spec.shape[1]:
        raise ShapeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {sizes.size} (batch_size={x.spec.shape[1]})",
            where=source.where(),
            hint="Pass one length for each sequence.",
        )
    if sizes.min() <= 0:
        raise ShapeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
            f": {sizes.min()}",
            where=source.where(),
            hint="Remove empty sequences.",
        )
    # Rows are ordered by time step and then by sequence, so that a layer processes one step at once.
    at_work = np.arange(sizes[0])[:, None] < sizes[None, :]
    times, places = np.nonzero(at_work)
    data = getitem(x, (_to_index_tensor(times), _to_index_tensor(places)))
    return PackedSequence(data, _to_index_tensor(at_work.sum(1)), order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the padded batch [T, B, ...] ([B, T, ...] with `batch_first`) in the original order, and the lengths.

    Raises ValueError if `total_length` is below the maximum length.
    """
    sizes = sequence.batch_sizes.array()
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise OptionInvalid(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}",
            where=source.where(),
            hint="Increase total_length, or omit it.",
        )
    out, lengths = sequence.padded(padding_value, total_length), sequence.lengths()
    if sequence.unsorted_indices is not None:
        back = sequence.unsorted_indices
        out, lengths = getitem(out, (slice(None), back)), lengths[back.array()]
    return (transpose(out, 0, 1) if batch_first else out), _to_index_tensor(lengths)


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences [L, ...] padded to one tensor [T, B, ...] ([B, T, ...] with `batch_first`).

    T is the greatest length. `padding_side` is "right" or "left"; others raise RuntimeError. No sequences raise
    ValueError.
    """
    members = list(sequences)
    if padding_side not in ("right", "left"):
        raise ShapeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}.",
            where=source.where(),
            hint='Pass padding_side="left" or padding_side="right".',
        )
    longest = max(s.spec.shape[0] for s in members)
    padded = []
    for s in members:
        shape = (longest - s.spec.shape[0], *s.spec.shape[1:])
        fill = full(shape, padding_value, dtype=s.dtype, device=s.device)
        parts = [s, fill] if padding_side == "right" else [fill, s]
        padded.append(cat(parts) if shape[0] else s)
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Return the list of sequences in a padded batch, each cut to its length.

    The batch is [T, B, ...], or [B, T, ...] with `batch_first`.
    """
    x = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    return [getitem(x, (i, slice(0, int(n)))) for i, n in enumerate(lengths)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return the packed form of a list of sequences [L, ...].

    Raises RuntimeError if a length is 0, or with `enforce_sorted` if lengths are not in descending order.
    """
    lengths = tensor([s.spec.shape[0] for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the list of sequences in a packed batch, in the original order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
