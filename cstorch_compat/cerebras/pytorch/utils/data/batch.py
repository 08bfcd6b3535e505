"""Checks of batches: all tensors have one batch size, and on CSX all batches have the same shapes and dtypes."""

from typing import Any

from cstorch_compat.cerebras.pytorch.utils.data import process_role
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.core import source
from lazytensor.errors import DataError, refuse

NON_CSX_NOTE = "While this is allowed in non-CSX runs, it may throw off metrics such as rate profiling."


def find_batch_size(batch: Any) -> int | None:
    """Return the number of samples of a batch: the size of the first dimension of its tensors. A scalar counts as 1.

    If the tensors have different sizes, return None: with a warning on the CPU, while on CSX it is refused with a
    DataError. Raises RuntimeError if the batch contains no tensor.
    """
    tensors = flatten(batch)
    if not tensors:
        raise RuntimeError(
            "We could not detect any torch tensors in the input data returned by the dataloader. We expect the "
            f"dataloader to return a nested dict/list/tuple of tensors. Got {type(batch).__name__}."
            "\n  Return a nested dict, list or tuple of tensors from the dataloader."
        )
    sizes = {shape[0] if shape else 1 for shape in (t.spec.shape for _, t in tensors)}
    # All tensors are checked, because each is divided among systems along this dimension.
    if len(sizes) == 1:
        return sizes.pop()
    # PyTorch accepts any batch, so the CPU backend only warns.
    if process.use_cs():
        error = DataError(
            "Only uniform batch sizes are supported in CS runs, but the dataloader returned a batch with batch sizes "
            f"{sizes}.",
            where=source.where(),
            hint="Make the batch the first dimension of every tensor.",
        )
        refuse("batch sizes", error)
        return None
    warn(
        f"Detected non-uniform batch sizes within the same batch: {sizes}. {NON_CSX_NOTE} The run will "
        f"proceed assuming no "
        "batch size."
    )
    return None


def infer_batch_size(data: Any, batch_size: int | None = None) -> int | None:
    """Return the number of samples of a batch as `find_batch_size`.

    Issues a warning if it differs from `batch_size`, the size of the previous batch.
    """
    size = find_batch_size(data)
    if None not in (size, batch_size) and size != batch_size:
        warn(f"Detected non-uniform batch sizes between batches ({batch_size} vs {size}). {NON_CSX_NOTE}")
    return size


class BatchForm:
    """A check that compares each batch of a loop with the previous ones.

    On CSX every batch must have the shapes and dtypes of the first. On the CPU, a change of the batch size issues a
    warning.
    """

    def __init__(self) -> None:
        self.size: int | None = None
        self._first: list[tuple[str, Any]] | None = None

    def check(self, batch: Any) -> int | None:
        """Check the next batch, and return its number of samples, or None if its tensors have different sizes.

        On CSX it raises DataError, a RuntimeError, if shapes or dtypes differ from those of the first batch. The first
        batch also raises an error if it has fewer samples than the run has systems.
        """
        # Compare with the previous batch and not the first, so that there is one warning for each change.
        size, before = find_batch_size(batch), self.size
        self.size = size
        if process.use_cs():
            self._require_first_form(batch)
            if before is None and size is not None:
                # Workers divide the batch too, but a run that stops after its first step has no workers.
                process_role.Cluster.of(process.current_backend().cluster_config).divide_batch(size)
        elif None not in (size, before) and size != before:
            warn(f"Detected non-uniform batch sizes between batches ({before} vs {size}). {NON_CSX_NOTE}")
        return size

    def _require_first_form(self, batch: Any) -> None:
        """Raise DataError unless `batch` has the tensor shapes and dtypes of the first batch, which is stored here."""
        # The program was compiled for these shapes.
        leaves = [(path, t.spec) for path, t in flatten(batch)]
        self._first = self._first or leaves
        if leaves == self._first:
            return
        now, first = (", ".join(f"{path or 'batch'} {spec}" for path, spec in side) for side in (leaves, self._first))
        raise DataError(
            "Only uniform batch sizes are supported in CS runs: the first batch has the shapes and dtypes "
            f"{first}, but this one has {now}",
            where=source.where(),
            hint="Use drop_last=True in the DataLoader, or pad the samples to one shape.",
        )
