"""Annotations that the package has ready: the kernel of attention, its groups, and the device of operations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cstorch_compat.run.annotation import AnnotationMode, create_annotation
from cstorch_compat.run.process import use_cs

WEIGHT_HOST_ANNOTATION, ACTIVATION_HOST_ANNOTATION, WAFER_ANNOTATION = "wgth", "acth", "wafer"
DeviceType = Literal["wgth", "acth", "wafer"]


@dataclass
class KernelConfig(AnnotationMode.Config):
    """Which kernel the compiler is to take."""

    enable_fwd: bool = True
    enable_bwd: bool = True
    kernel: str | None = None


@dataclass
class GroupsConfig(AnnotationMode.Config):
    """How many groups of keys and values attention has."""

    enable_fwd: bool = True
    enable_bwd: bool = True
    num_kv_groups: int | None = None


@dataclass
class DeviceConfig(AnnotationMode.Config):
    """Where operations are to run."""

    device: DeviceType


def _return_unchanged(function: Any) -> Any:
    return function


def kernel_annotater(kernel: str | None = None) -> Callable[[Any], Any]:
    """A decorator: the function's operations are to take this kernel; off the wafer it stays as it is."""
    if kernel is None or not use_cs():
        return _return_unchanged
    return create_annotation(
        KernelConfig, lambda config, is_backward: AnnotationMode.Attribute("kernel", config.kernel), kernel=kernel
    )


def groups_annotater(num_kv_groups: int | None = None) -> Callable[[Any], Any]:
    """A decorator: so many groups of keys and values has the function; off the wafer it stays as it is."""
    if num_kv_groups is None or not use_cs():
        return _return_unchanged
    return create_annotation(
        GroupsConfig,
        lambda config, is_backward: AnnotationMode.Attribute("num_kv_groups", config.num_kv_groups),
        num_kv_groups=num_kv_groups,
    )


def device_annotation(device: DeviceType, enable_fwd: bool = True, enable_bwd: bool = True) -> Callable[[Any], Any]:
    """A decorator: where the function's operations are to run. Raises TypeError for an unknown place."""
    if device not in get_args(DeviceType):
        raise TypeError(f"Expected `device` to be one of {get_args(DeviceType)}.")
    return create_annotation(
        DeviceConfig,
        lambda config, is_backward: AnnotationMode.Attribute("device", config.device),
        device=device,
        enable_fwd=enable_fwd,
        enable_bwd=enable_bwd,
    )
