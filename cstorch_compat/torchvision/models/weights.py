"""Published weights by name. They are loaded from files in the cache of torch.hub, because nothing is downloaded."""

from enum import Enum
from types import SimpleNamespace
from typing import Any

from cstorch_compat.torch.hub import load_state_dict_from_url
from cstorch_compat.torchvision.transforms import transforms
from lazytensor.errors import OptionInvalid
from lazytensor.nn.module import Module

WEIGHTS_URL = "https://download.pytorch.org/models/"
# The file of each set of weights, by architecture and name. The last set is the default.
WEIGHT_FILES = {
    "AlexNet": {"IMAGENET1K_V1": "alexnet-owt-7be5be79"},
    "ResNet18": {"IMAGENET1K_V1": "resnet18-f37072fd"},
    "ResNet34": {"IMAGENET1K_V1": "resnet34-b627a593"},
    "ResNet50": {"IMAGENET1K_V1": "resnet50-0676ba61", "IMAGENET1K_V2": "resnet50-11ad3fa6"},
    "ResNet101": {"IMAGENET1K_V1": "resnet101-63fe2227", "IMAGENET1K_V2": "resnet101-cd907fc2"},
    "ResNet152": {"IMAGENET1K_V1": "resnet152-394f9c45", "IMAGENET1K_V2": "resnet152-f82ba261"},
    "ResNeXt50_32X4D": {"IMAGENET1K_V1": "resnext50_32x4d-7cdf4587"},
    "ResNeXt101_32X8D": {"IMAGENET1K_V1": "resnext101_32x8d-8ba56ff5"},
    "Wide_ResNet50_2": {"IMAGENET1K_V1": "wide_resnet50_2-95faca4d"},
    "Wide_ResNet101_2": {"IMAGENET1K_V1": "wide_resnet101_2-32ee1156"},
    "VGG11": {"IMAGENET1K_V1": "vgg11-8a719046"},
    "VGG11_BN": {"IMAGENET1K_V1": "vgg11_bn-6002323d"},
    "VGG13": {"IMAGENET1K_V1": "vgg13-19584684"},
    "VGG13_BN": {"IMAGENET1K_V1": "vgg13_bn-abd245e5"},
    "VGG16": {"IMAGENET1K_V1": "vgg16-397923af"},
    "VGG16_BN": {"IMAGENET1K_V1": "vgg16_bn-6c64b313"},
    "VGG19": {"IMAGENET1K_V1": "vgg19-dcbb9e9d"},
    "VGG19_BN": {"IMAGENET1K_V1": "vgg19_bn-c79401a0"},
    "ViT_B_16": {"IMAGENET1K_V1": "vit_b_16-c867db91"},
    "ViT_B_32": {"IMAGENET1K_V1": "vit_b_32-d86f8d99"},
    "ViT_L_16": {"IMAGENET1K_V1": "vit_l_16-852ce7e3"},
    "ViT_L_32": {"IMAGENET1K_V1": "vit_l_32-c7638314"},
}


class WeightsEnum(Enum):
    """The base class of enumerations of the weights for one architecture. A value is the name of a file."""

    @property
    def url(self) -> str:
        """Return the URL at which the file was published, which also determines its name in the cache."""
        return f"{WEIGHTS_URL}{self.value}.pth"

    @property
    def meta(self) -> dict[str, Any]:
        """Return the number of classes, {"num_classes": 1000}."""
        return {"num_classes": 1000}

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state dict from the cache. Raises DataError if the file is not there. Arguments are ignored."""
        return load_state_dict_from_url(self.url)

    @staticmethod
    def transforms(crop_size: int = 224, resize_size: int = 256) -> Any:
        """Return the transform for input images: resize, centre crop, conversion to a tensor, and normalization.

        `resize_size` is the shorter side and `crop_size` the side of the square, in pixels. Mean and deviation are
        those of ImageNet.
        """
        steps: list[Any] = [transforms.Resize(resize_size), transforms.CenterCrop(crop_size), transforms.ToTensor()]
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        return transforms.Compose([*steps, transforms.Normalize(mean, std)])


def make_weights_class(name: str) -> type[WeightsEnum]:
    """Return the enumeration of the weights for an architecture. DEFAULT is an alias of the last set."""
    sets = WEIGHT_FILES[name]
    make: Any = WeightsEnum
    kind: type[WeightsEnum] = make(f"{name}_Weights", {**sets, "DEFAULT": list(sets.values())[-1]})
    return kind


WEIGHTS_CLASSES = {f"{name}_Weights": make_weights_class(name) for name in WEIGHT_FILES}
"""The enumerations of weights by class name."""
WEIGHTS_BY_NAME = SimpleNamespace(**WEIGHTS_CLASSES)
"""The enumerations of weights as attributes."""

BUILDER_DOC = """Return a {kind} model, with published weights if `weights` or `pretrained` selects them.

`weights` is a member of the enumeration `{kind}_Weights` or its name; None gives random initial values. `pretrained`,
the older argument, selects the first set of weights. The file of the weights is read from the cache of torch.hub; if it
is missing, DataError is raised. Weights set `num_classes` to 1000. `progress` is ignored. Further options are arguments
of the model's class."""
"""The docstring of a function that creates a model, with the placeholder `kind` for the architecture."""


def load_weights(model: Module, name: str, weights: Any, pretrained: bool = False) -> Module:
    """Load published weights into `model`, and return it.

    `name` is the architecture. `weights` is a member of its enumeration or the name of one, with or without the class
    before a dot; None loads nothing. `pretrained`, the older argument, selects the first set, whatever `weights` is.
    Raises KeyError for an unknown name, OptionInvalid for weights of another architecture, and DataError if the file is
    not in the cache.
    """
    kind = WEIGHTS_CLASSES[f"{name}_Weights"]
    if pretrained:
        weights = next(iter(kind))
    if weights is None:
        return model
    chosen = kind[str(weights).rpartition(".")[2]] if isinstance(weights, str) else weights
    if not isinstance(chosen, kind):
        raise OptionInvalid(f"{weights!r} are not weights of {name}", hint=f"Use one of {[w.name for w in kind]}.")
    model.load_state_dict(chosen.get_state_dict())
    return model


def set_num_classes(weights: Any, pretrained: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of `options` with `num_classes` set to 1000 if published weights are requested.

    An existing `num_classes` is replaced. If no weights are requested, return `options` itself.
    """
    return {**options, "num_classes": 1000} if weights is not None or pretrained else options
