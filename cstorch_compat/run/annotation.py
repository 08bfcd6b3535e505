"""Compiler annotations: attributes that a script attaches to the operations of a function.

Annotations are checked and kept while the function runs. They change no value and no plan.
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
"""The attributes of the annotated functions that are running, innermost last."""

F = TypeVar("F", bound=Callable[..., Any])


class AnnotationMode(ABC):
    """A context manager that attaches attributes to the operations in its block.

    `config` says whether they apply to the forward pass, the backward pass or both.
    """

    @dataclass
    class Config:
        """Which passes are annotated. Subclasses add the settings from which the attribute is made."""

        enable_fwd: bool
        enable_bwd: bool

    @dataclass
    class Attribute:
        """The name and value of an attribute."""

        name: str
        value: Any

    def __init__(self, config: "AnnotationMode.Config"):
        self.config = config

    @abstractmethod
    def get_attribute(self, config: "AnnotationMode.Config", is_backward: bool) -> "AnnotationMode.Attribute":
        """Return the attribute of operations in the backward pass if `is_backward`, else in the forward pass."""

    def __enter__(self) -> "AnnotationMode":
        # Get both attributes on entry, as the original does, so that errors of the script's function are raised here.
        passes = ((False, self.config.enable_fwd), (True, self.config.enable_bwd))
        attributes = [self.get_attribute(self.config, is_backward) for is_backward, wanted in passes if wanted]
        # A stack, because an annotated function may call another one.
        _attribute_stack.value.extend(attributes)
        self._count = len(attributes)
        return self

    def __exit__(self, *_: object) -> None:
        del _attribute_stack.value[len(_attribute_stack.value) - self._count :]


def active_attributes() -> tuple[AnnotationMode.Attribute, ...]:
    """Return the attributes of the annotated functions that are running, innermost last."""
    return tuple(_attribute_stack.value)


def set_attribute(tensor: Tensor, attribute: str, value: Any) -> None:
    """Check the arguments for an attribute of the operation that computed `tensor`; nothing is stored.

    Raises TypeError if `tensor` is no Tensor.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"Expected a tensor to attach the attribute {attribute!r} to. Got {type(tensor)}.\n  Pass a tensor."
        )


def annotate(annotation_mode: AnnotationMode) -> Callable[[F], F]:
    """Return a decorator that runs a function inside the context `annotation_mode`.

    Without a CSX backend the function runs without the context. Decorating under a CPU backend warns that the
    annotation has no effect.
    """

    def decorate(function: F) -> F:
        owner = current_backend(raise_exception=False)
        if owner is not None and not owner.is_csx:
            kind, device = type(annotation_mode).__name__, owner.torch_device
            warn(f'Setting {kind} for "{device}" device doesn\'t have any effect.')

        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            # Test at the call, because scripts decorate methods before they make a backend. Only CSX has a compiler.
            if not use_cs():
                return function(*args, **kwargs)
            with annotation_mode:
                return function(*args, **kwargs)

        return annotated  # type: ignore[return-value]

    return decorate


def create_annotation(
    annotation_config: type[AnnotationMode.Config], get_attribute_fn: Callable[..., Any], **kwargs: Any
) -> Callable[[F], F]:
    """Return a decorator that annotates a function.

    `get_attribute_fn(config, is_backward)` returns the attribute. `config` is `annotation_config(**kwargs)`, made once.
    """

    class GenericAnnotationMode(AnnotationMode):
        """The annotation mode for `get_attribute_fn`."""

        def get_attribute(self, config: AnnotationMode.Config, is_backward: bool) -> AnnotationMode.Attribute:
            """Return the result of `get_attribute_fn`."""
            attribute: AnnotationMode.Attribute = get_attribute_fn(config, is_backward)
            return attribute

    return annotate(GenericAnnotationMode(annotation_config(**kwargs)))
