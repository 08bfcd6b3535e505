"""Compressed weight transfer to the wafer: `cerebras.pytorch.experimental.Compression`."""

from typing import Any, Literal, get_args

from cstorch_compat.run.annotation import set_attribute
from cstorch_compat.run.param_filter import convert_glob_to_regex
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module

FormatLiteral = Literal["mx8", "mx8-e3m4", "mx8-e4m3", "mx9", "mx10", "mx10-e2m7"]


class Compression:
    """A request to transfer selected weights in a compressed format. It is checked and has no effect.

    Weights keep their values and their dtype.

    - `format`: one of `FormatLiteral`. Other text raises ValueError, other types raise TypeError.
    - `param_filter`: a glob pattern of parameter names, or a list of them.
    """

    def __init__(self, format: FormatLiteral, param_filter: str | list[str]):
        if not isinstance(format, str):
            raise TypeError(
                f"Expected format to be a string, but got type {type(format)}\n  Pass the name of a format."
            )
        formats = get_args(FormatLiteral)
        if format not in formats:
            raise ValueError(f'Expected format to be one of {formats}, but got "{format}"\n  Pass one of these names.')
        self.format = format
        patterns = [param_filter] if isinstance(param_filter, str) else list(param_filter)
        self.param_filter = [convert_glob_to_regex(p) for p in patterns]

    # `Module.apply` calls its argument with each submodule, while `apply` of a prepared model calls `apply` below.
    def __call__(self, module: Any) -> None:
        raise TypeError(
            f"'{type(self).__name__}' object is not callable: prepare the model by cstorch.compile first"
            "\n  Call cstorch.compile(model, backend) first."
        )

    def apply(self, module: Module) -> None:
        """Call `annotate` for each parameter and buffer of `module` whose full name matches a pattern."""
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if any(pattern.fullmatch(name) for pattern in self.param_filter):
                self.annotate(tensor)

    def annotate(self, tensor: Tensor) -> None:
        """Raise TypeError if `tensor` is not a tensor.

        Otherwise do nothing: the original records the format for its compiler.
        """
        set_attribute(tensor, "compression", self.format)

    def __repr__(self) -> str:
        return f"Compression(format={self.format}, param_filter: {self.param_filter})"
