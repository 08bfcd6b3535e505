"""Models by their names."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.torchvision.models import resnet, vgg, vision_transformer
from cstorch_compat.torchvision.models.weights import WEIGHT_FILES

ARCHITECTURES: dict[str, Callable[..., Any]] = {
    kind.lower(): getattr(module, kind.lower())
    for kind in WEIGHT_FILES
    for module in (resnet, vgg, vision_transformer)
    if hasattr(module, kind.lower())
}


def list_models(module: Any = None, include: Any = None, exclude: Any = None) -> list[str]:
    """The names of all models."""
    return sorted(ARCHITECTURES)


def get_model(name: str, **config: Any) -> Any:
    """A model by its name. Raises ValueError for an unknown one."""
    if name.lower() not in ARCHITECTURES:
        raise ValueError(f"Unknown model {name}")
    return ARCHITECTURES[name.lower()](**config)
