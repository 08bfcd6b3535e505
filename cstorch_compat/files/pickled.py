"""What stands for a pickled object of a checkpoint: it can be carried around, and not be used."""

from typing import Any, NoReturn

from lazytensor.core import source
from lazytensor.errors import CheckpointError


class DeferredObject:
    """A pickled Python object that was found under `key`, and stays closed."""

    def __init__(self, key: str):
        self._key = key

    def __repr__(self) -> str:
        return f"DeferredObject({self._key!r}, pickled and not opened)"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for what may be absent
            raise AttributeError(name)
        _refuse(self)


def _refuse(stand_in: DeferredObject, *_: Any) -> NoReturn:
    """Raise CheckpointError: a pickle can run any code, so none is ever opened."""
    raise CheckpointError(
        f"{stand_in._key!r} is a pickled Python object, and pickles are never loaded",
        where=source.where(),
        hint="Save the checkpoint again without it; NumPy scalars become plain ones by .item().",
    )


# Python looks these up on the class and never asks `__getattr__`, so each has to stand there. Not among them are
# `__repr__`, `__copy__` and `__reduce__`: a state dict with such a leaf is still printed, copied and walked through.
_REFUSED_METHODS = """
    __bool__ __int__ __float__ __complex__ __index__ __len__ __iter__ __call__ __getitem__ __contains__ __eq__ __ne__
    __lt__ __le__ __gt__ __ge__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __neg__
    __array__ __hash__ __str__
""".split()
# `__hash__` refuses too: where an object is a key or a member of a set, its equality would have to be known.
for _use in _REFUSED_METHODS:
    setattr(DeferredObject, _use, _refuse)
