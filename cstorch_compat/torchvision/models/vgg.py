"""VGG networks (Simonyan and Zisserman, arXiv:1409.1556) and AlexNet (arXiv:1404.5997)."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.torchvision.models.weights import BUILDER_DOC, load_weights, set_num_classes
from lazytensor import nn
from lazytensor.core.tensor import Tensor
from lazytensor.functional.views import flatten
from lazytensor.nn import init

STAGE_WIDTHS = {
    "11": "64 M 128 M 256 256 M 512 512 M 512 512 M",
    "13": "64 64 M 128 128 M 256 256 M 512 512 M 512 512 M",
    "16": "64 64 M 128 128 M 256 256 256 M 512 512 512 M 512 512 512 M",
    "19": "64 64 M 128 128 M 256 256 256 256 M 512 512 512 512 M 512 512 512 512 M",
}
"""The output channels of the convolutions, by the number of layers with weights. M is a max pooling that halves height
and width.
"""


def make_layers(stages: str, batch_norm: bool = False) -> nn.Sequential:
    """Return the convolutional layers described by `stages`, words that are separated by spaces.

    A number is a 3x3 convolution with that number of output channels, followed by ReLU, with batch normalization
    between them if `batch_norm`. "M" is a 2x2 max pooling, which halves height and width. The input has 3 channels.
    """
    layers: list[nn.Module] = []
    channels = 3
    for word in stages.split():
        if word == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        # Padded by 1, so that only M changes height and width.
        layers.append(nn.Conv2d(channels, int(word), 3, padding=1))
        channels = int(word)
        layers += [nn.BatchNorm2d(channels)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """A VGG network: convolutional layers `features`, and three linear layers."""

    def __init__(self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5):
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        for m in self.modules() if init_weights else ():
            if isinstance(m, nn.Conv2d):
                init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                init.constant_(m.bias, 0)
            elif isinstance(m, nn.BatchNorm2d):
                init.constant_(m.weight, 1)
                init.constant_(m.bias, 0)
            elif isinstance(m, nn.Linear):
                init.normal_(m.weight, 0, 0.01)
                init.constant_(m.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [N, classes] for images [N, 3, H, W]."""
        return self.classifier(flatten(self.avgpool(self.features(x)), 1))  # type: ignore[no-any-return]


class AlexNet(nn.Module):
    """AlexNet: five convolutions and three linear layers."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [N, classes] for images [N, 3, H, W]."""
        return self.classifier(flatten(self.avgpool(self.features(x)), 1))  # type: ignore[no-any-return]


def alexnet(*, weights: Any = None, progress: bool = True, pretrained: bool = False, **options: Any) -> AlexNet:
    """Return an AlexNet. `weights`, or `pretrained`, selects published weights, which are loaded from the cache.

    With weights it has 1000 classes. `options` go to the constructor. Raises the errors of `load_weights`. `progress`
    has no effect.
    """
    model = AlexNet(**set_num_classes(weights, pretrained, options))
    return load_weights(model, "AlexNet", weights, pretrained)  # type: ignore[return-value]


def _make_builder(depth: str, batch_norm: bool) -> Callable[..., Any]:
    """Return the function that creates a VGG of this depth and loads weights if requested.

    If weights are loaded, the initial weights are not drawn.
    """
    kind = f"VGG{depth}{'_BN' if batch_norm else ''}"

    def build(*, weights: Any = None, progress: bool = True, pretrained: bool = False, **options: Any) -> VGG:
        given = set_num_classes(weights, pretrained, options)
        # Initial values that are replaced by weights are not drawn.
        if weights is not None or pretrained:
            given["init_weights"] = False
        return load_weights(VGG(make_layers(STAGE_WIDTHS[depth], batch_norm), **given), kind, weights, pretrained)  # type: ignore[return-value]

    build.__name__ = build.__qualname__ = kind.lower()
    build.__doc__ = BUILDER_DOC.format(kind=kind)
    return build


vgg11, vgg13, vgg16, vgg19 = (_make_builder(depth, False) for depth in STAGE_WIDTHS)
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = (_make_builder(depth, True) for depth in STAGE_WIDTHS)
