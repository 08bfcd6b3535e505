"""`ckpt verify`: check the arrays of a file against its checksums, if it has any."""

from cstorch_compat.ckpt.formats import read
from cstorch_compat.ckpt.idx import is_idx, verify_idx
from cstorch_compat.ckpt.leaves import leaves
from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError
from lazytensor.system.terminal import escape_line, print_escaped


def verify(path: str) -> int:
    """Read every array of a file and print which are damaged. Return the exit status: 1 if one is damaged, otherwise 0.

    A last line has the number of intact arrays or, if none is damaged and not all have a checksum, the number of
    checksums. An IDX file is checked by its length. Raises CheckpointError if the file as a whole cannot be read.
    """
    if is_idx(path):
        print(verify_idx(path))
        return 0
    kind, tree = read(path)
    arrays: dict[int, tuple[str, LazyArray]] = {}
    for key, leaf in leaves(tree):
        if isinstance(leaf, LazyArray):
            arrays.setdefault(id(leaf), (key, leaf))
    damaged = sum(not _is_intact(key, array) for key, array in arrays.values())
    checked = sum(array.is_checked for _, array in arrays.values())
    if damaged or checked == len(arrays):
        print(f"{kind.name}: {len(arrays) - damaged} of {len(arrays)} arrays are intact")
    else:
        print(f"{kind.name}: {checked} of {len(arrays)} arrays have a checksum; all arrays are readable")
    return 1 if damaged else 0


def _is_intact(key: str, array: LazyArray) -> bool:
    """Return whether an array can be read with a matching checksum. Prints the error if not."""
    # Read one array at a time and discard it.
    try:
        array.stored()
    except CheckpointError as e:
        print_escaped(escape_line(f"{key}: {e.what}"))
        return False
    return True
