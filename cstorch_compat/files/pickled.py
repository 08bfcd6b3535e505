"""What stands for a pickled object of a checkpoint: it can be carried around, and not be used."""

from typing import Any, NoReturn

from lazytensor import source
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


def _refuse(found: DeferredObject, *_: Any) -> NoReturn:
    """Raise CheckpointError: a pickle can run any code, so none is ever opened."""
    raise CheckpointError(
        f"{found._key!r} is a pickled Python object, and pickles are never loaded",
        where=source.where(),
        hint="Save the checkpoint again without it; NumPy scalars become plain ones by .item().",
    )


_USES = (
    *("bool", "int", "float", "complex", "index", "len", "iter", "call", "getitem", "contains", "eq", "ne", "lt", "le"),
    *("gt", "ge", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "array", "hash", "str"),
)
for _use in _USES:
    setattr(DeferredObject, f"__{_use}__", _refuse)
