"""What scripts tell the compiler of the operations of a function: checked and kept while it runs, and no more.

The simulator chooses its kernels by itself, so no annotation changes a number or a plan.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from cstorch_compat.run.process import RunLocal, current_backend, use_cs
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.core.tensor import Tensor

_attribute_stack = RunLocal[list["AnnotationMode.Attribute"]](list)
"""The attributes of the annotated functions that are running, the innermost last."""

F = TypeVar("F", bound=Callable[..., Any])


class AnnotationMode(ABC):
    """A block whose operations carry an attribute, in the forward pass, the backward pass or both."""

    @dataclass
    class Config:
        """Which passes are annotated; subclasses add what the attribute is made of."""

        enable_fwd: bool
        enable_bwd: bool

    @dataclass
    class Attribute:
        """A name and a value."""

        name: str
        value: Any

    def __init__(self, config: "AnnotationMode.Config"):
        self.config = config

    @abstractmethod
    def get_attribute(self, config: "AnnotationMode.Config", is_backward: bool) -> "AnnotationMode.Attribute":
        """The attribute of the operations of one of the passes."""

    def __enter__(self) -> "AnnotationMode":
        # Both are asked for, as the original asks: what a script's function refuses is to be told of on entry.
        passes = ((False, self.config.enable_fwd), (True, self.config.enable_bwd))
        attributes = [self.get_attribute(self.config, is_backward) for is_backward, wanted in passes if wanted]
        # On a list that is the run's: an annotated function may call another.
        _attribute_stack.value.extend(attributes)
        self._count = len(attributes)
        return self

    def __exit__(self, *_: object) -> None:
        del _attribute_stack.value[len(_attribute_stack.value) - self._count :]


def active_attributes() -> tuple[AnnotationMode.Attribute, ...]:
    """The attributes that operations made now carry, the innermost last."""
    return tuple(_attribute_stack.value)


def set_attribute(tensor: Tensor, attribute: str, value: Any) -> None:
    """Take note of an attribute of the operation behind a tensor. Raises TypeError for what is no tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Expected a tensor to attach the attribute {attribute!r} to. Got {type(tensor)}.")


def annotate(annotation_mode: AnnotationMode) -> Callable[[F], F]:
    """A decorator: the function runs in the block of an annotation."""

    def decorate(function: F) -> F:
        owner = current_backend(raise_exception=False)
        if owner is not None and not owner.is_csx:
            kind, device = type(annotation_mode).__name__, owner.torch_device
            warn(f'Setting {kind} for "{device}" device doesn\'t have any effect.')

        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            # Asked at the call: scripts decorate methods before they make a backend. Elsewhere there is no compiler.
            if not use_cs():
                return function(*args, **kwargs)
            with annotation_mode:
                return function(*args, **kwargs)

        return annotated  # type: ignore[return-value]

    return decorate


def create_annotation(
    annotation_config: type[AnnotationMode.Config], get_attribute_fn: Callable[..., Any], **kwargs: Any
) -> Callable[[F], F]:
    """A decorator from a kind of configuration, its settings, and the function that makes the attribute of it."""

    class GenericAnnotationMode(AnnotationMode):
        """The annotation that a script describes."""

        def get_attribute(self, config: AnnotationMode.Config, is_backward: bool) -> AnnotationMode.Attribute:
            """What the script's function gives."""
            attribute: AnnotationMode.Attribute = get_attribute_fn(config, is_backward)
            return attribute

    return annotate(GenericAnnotationMode(annotation_config(**kwargs)))
