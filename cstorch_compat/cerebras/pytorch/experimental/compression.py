"""Compression of weights on their way to the wafer: `cerebras.pytorch.experimental.Compression`."""

from typing import Any, Literal, get_args

from cstorch_compat.run.annotation import set_attribute
from cstorch_compat.run.param_filter import convert_glob_to_regex
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module

FormatLiteral = Literal["mx8", "mx8-e3m4", "mx8-e4m3", "mx9", "mx10", "mx10-e2m7"]


class Compression:
    """Names the format in which chosen weights travel. The simulator moves weights as they are, in its own numbers.

    Raises ValueError for an unknown format, TypeError for what is no name.
    """

    def __init__(self, format: FormatLiteral, param_filter: str | list[str]):
        if not isinstance(format, str):
            raise TypeError(f"Expected format to be a string, but got type {type(format)}")
        formats = get_args(FormatLiteral)
        if format not in formats:
            raise ValueError(f'Expected format to be one of {formats}, but got "{format}"')
        self.format = format
        patterns = [param_filter] if isinstance(param_filter, str) else list(param_filter)
        self.param_filter = [convert_glob_to_regex(p) for p in patterns]

    # As for sparsity: `Module.apply` calls its argument with each submodule, that of a prepared model calls `apply`.
    def __call__(self, module: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' object is not callable: prepare the model by cstorch.compile first")

    def apply(self, module: Module) -> None:
        """Take note of the format for each parameter and buffer that a pattern names."""
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if any(pattern.fullmatch(name) for pattern in self.param_filter):
                self.annotate(tensor)

    def annotate(self, tensor: Tensor) -> None:
        """Take note of the format for a tensor."""
        set_attribute(tensor, "compression", self.format)

    def __repr__(self) -> str:
        return f"Compression(format={self.format}, param_filter: {self.param_filter})"
