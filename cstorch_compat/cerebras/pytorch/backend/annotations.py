"""Ready-made annotations: decorators that attach compiler hints to the operations of a function.

The hints choose the attention kernel, the number of key/value groups, and the device of operations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cstorch_compat.run.annotation import AnnotationMode, create_annotation
from cstorch_compat.run.process import use_cs

WEIGHT_HOST_ANNOTATION, ACTIVATION_HOST_ANNOTATION, WAFER_ANNOTATION = "wgth", "acth", "wafer"
DeviceType = Literal["wgth", "acth", "wafer"]


@dataclass
class KernelConfig(AnnotationMode.Config):
    """Options of `kernel_annotater`: the kernel's name, and whether forward and backward operations are annotated."""

    enable_fwd: bool = True
    enable_bwd: bool = True
    kernel: str | None = None


@dataclass
class GroupsConfig(AnnotationMode.Config):
    """Options of `groups_annotater`: the number of key/value groups, and which passes are annotated."""

    enable_fwd: bool = True
    enable_bwd: bool = True
    num_kv_groups: int | None = None


@dataclass
class DeviceConfig(AnnotationMode.Config):
    """Options of `device_annotation`: the device on which operations run."""

    device: DeviceType


def _return_unchanged(function: Any) -> Any:
    return function


def kernel_annotater(kernel: str | None = None) -> Callable[[Any], Any]:
    """Return a decorator that annotates the function's operations with the attribute "kernel".

    The decorator returns the function unchanged if `kernel` is None or the backend is not CSX.
    """
    if kernel is None or not use_cs():
        return _return_unchanged
    return create_annotation(
        KernelConfig, lambda config, is_backward: AnnotationMode.Attribute("kernel", config.kernel), kernel=kernel
    )


def groups_annotater(num_kv_groups: int | None = None) -> Callable[[Any], Any]:
    """Return a decorator that annotates the function's operations with the attribute "num_kv_groups".

    `num_kv_groups` is the number of key/value heads of grouped-query attention. The decorator returns the function
    unchanged if it is None or the backend is not CSX.
    """
    if num_kv_groups is None or not use_cs():
        return _return_unchanged
    return create_annotation(
        GroupsConfig,
        lambda config, is_backward: AnnotationMode.Attribute("num_kv_groups", config.num_kv_groups),
        num_kv_groups=num_kv_groups,
    )


def device_annotation(device: DeviceType, enable_fwd: bool = True, enable_bwd: bool = True) -> Callable[[Any], Any]:
    """Return a decorator that annotates the function's operations with the attribute "device".

    `device` is "wgth" (weight host), "acth" (activation host) or "wafer"; others raise TypeError. `enable_fwd` and
    `enable_bwd` select whether forward and backward operations are annotated.
    """
    if device not in get_args(DeviceType):
        raise TypeError(f"Expected `device` to be one of {get_args(DeviceType)}.\n  Pass one of these names.")
    return create_annotation(
        DeviceConfig,
        lambda config, is_backward: AnnotationMode.Attribute("device", config.device),
        device=device,
        enable_fwd=enable_fwd,
        enable_bwd=enable_bwd,
    )
