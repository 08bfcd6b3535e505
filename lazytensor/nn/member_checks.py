"""What may take the place of a member of a module."""

from typing import Any

_ALLOWED_KINDS = {
    "_parameters": "torch.nn.Parameter",
    "_modules": "torch.nn.Module",
    "_buffers": "torch.nn.Buffer, torch.Tensor",
}
"""What may take the place of a member of a module."""


def refuse_other_kind(module: Any, name: str, value: Any) -> None:
    """Raise TypeError if `name` is a parameter, a module or a buffer of `module`: `value` is none of these."""
    for table, expected in _ALLOWED_KINDS.items():
        if name in getattr(module, table):
            kind = table.removeprefix("_").removesuffix("s").replace("module", "child module")
            given = type(value).__name__
            raise TypeError(f"cannot assign '{given}' as {kind} '{name}' ({expected} or None expected)")
