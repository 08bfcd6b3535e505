"""The registry of models by name."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.torchvision.models import resnet, vgg, vision_transformer
from cstorch_compat.torchvision.models.weights import WEIGHT_FILES
from lazytensor.core import source
from lazytensor.errors import OptionInvalid

ARCHITECTURES: dict[str, Callable[..., Any]] = {
    kind.lower(): getattr(module, kind.lower())
    for kind in WEIGHT_FILES
    for module in (resnet, vgg, vision_transformer)
    if hasattr(module, kind.lower())
}
"""The builder function of each model by name."""


def list_models(module: Any = None, include: Any = None, exclude: Any = None) -> list[str]:
    """Return the sorted names of all models. The filters have no effect."""
    return sorted(ARCHITECTURES)


def get_model(name: str, **config: Any) -> Any:
    """Return a model by name, in any case.

    `config` goes to its builder function. Raises ValueError for an unknown name.
    """
    if name.lower() not in ARCHITECTURES:
        raise OptionInvalid(
            f"Unknown model {name}", where=source.where(), hint="Pass a name of torchvision.models.list_models()."
        )
    return ARCHITECTURES[name.lower()](**config)
