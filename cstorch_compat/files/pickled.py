"""A placeholder for pickled objects of checkpoints. It can be passed on and copied, but not used."""

from typing import Any, NoReturn

from lazytensor.core import source
from lazytensor.errors import CheckpointError


class DeferredObject:
    """A placeholder for the pickled Python object at `key`, which is never loaded. Using it raises CheckpointError."""

    def __init__(self, key: str):
        self._key = key

    def __repr__(self) -> str:
        return f"DeferredObject({self._key!r}, pickled and not opened)"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle test for optional special methods
            raise AttributeError(name)
        _refuse(self)


def _refuse(stand_in: DeferredObject, *_: Any) -> NoReturn:
    """Raise CheckpointError, because loading a pickle can run any code."""
    raise CheckpointError(
        f"{stand_in._key!r} is a pickled Python object, which is never loaded",
        where=source.where(),
        hint="Save the checkpoint again without it. Convert NumPy scalars with .item().",
    )


_REFUSED_METHODS = """
    __bool__ __int__ __float__ __complex__ __index__ __len__ __iter__ __call__ __getitem__ __contains__ __eq__ __ne__
    __lt__ __le__ __gt__ __ge__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __neg__
    __array__ __hash__ __str__
""".split()
"""Special methods that raise. Python looks them up on the class and does not use `__getattr__`.

`__repr__`, `__copy__` and `__reduce__` are not among them, so that a state dict with such a leaf can be printed, copied
and traversed. `__hash__` is, because dicts and sets would compare the object.
"""
for _use in _REFUSED_METHODS:
    setattr(DeferredObject, _use, _refuse)
