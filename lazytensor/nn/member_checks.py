"""Checks of values that are assigned to members of a module."""

from typing import Any

from lazytensor.core import source
from lazytensor.errors import ArgumentInvalid

_ALLOWED_KINDS = {
    "_parameters": "torch.nn.Parameter",
    "_modules": "torch.nn.Module",
    "_buffers": "torch.nn.Buffer, torch.Tensor",
}
"""The types that may replace a member of a module, by the table of the member."""


def refuse_other_kind(module: Any, name: str, value: Any) -> None:
    """Raise TypeError if `name` is a parameter, submodule or buffer of `module`.

    The caller has found that `value` has none of the allowed types.
    """
    for table, expected in _ALLOWED_KINDS.items():
        if name in getattr(module, table):
            kind = table.removeprefix("_").removesuffix("s").replace("module", "child module")
            given = type(value).__name__
            raise ArgumentInvalid(
                f"cannot assign '{given}' as {kind} '{name}' ({expected} or None expected)",
                where=source.where(),
                hint="Assign an object of this kind, or None; delete the member first to change its kind.",
            )
