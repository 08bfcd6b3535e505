"""Residual networks (He, Zhang, Ren and Sun, arXiv:1512.03385), ResNeXt (1611.05431) and Wide ResNet (1605.07146)."""

from collections.abc import Callable, Sequence
from typing import Any

from cstorch_compat.torchvision.models.weights import BUILDER_DOC, load_weights, set_num_classes
from lazytensor import nn
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid, OptionMissing
from lazytensor.functional.views import flatten
from lazytensor.nn import init

NormFactory = Callable[[int], nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution without bias, padded so that only `stride` changes height and width."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """Return a 1x1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """A residual block of two 3x3 convolutions.

    Raises ValueError for `groups` or `base_width` other than the defaults, and NotImplementedError for `dilation` > 1.
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: NormFactory | None = None,
    ):
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise OptionInvalid(
                f"BasicBlock only supports groups=1 and base_width=64, but got {groups} and {base_width}",
                where=source.where(),
                hint="Use Bottleneck, or pass groups=1 and width_per_group=64.",
            )
        if dilation > 1:
            raise OptionMissing(
                f"Dilation > 1 not supported in BasicBlock: {dilation}",
                where=source.where(),
                hint="Use Bottleneck, or pass False for each stage.",
            )
        self.conv1, self.bn1 = conv3x3(inplanes, planes, stride), norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv3x3(planes, planes), norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, planes, H / stride, W / stride] for an input [N, inplanes, H, W]."""
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        around = x if self.downsample is None else self.downsample(x)
        return self.relu(out + around)


class Bottleneck(nn.Module):
    """A residual block of a 1x1, a 3x3 and a 1x1 convolution. The stride is in the 3x3 convolution."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: NormFactory | None = None,
    ):
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width, out_planes = int(planes * (base_width / 64.0)) * groups, planes * self.expansion
        self.conv1, self.bn1 = conv1x1(inplanes, width), norm(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride, groups, dilation), norm(width)
        self.conv3, self.bn3 = conv1x1(width, out_planes), norm(out_planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, 4 * planes, H / stride, W / stride] for an input [N, inplanes, H, W]."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        around = x if self.downsample is None else self.downsample(x)
        return self.relu(out + around)


class ResNet(nn.Module):
    """A residual network: a stem, four stages of blocks, global average pooling and a linear layer.

    - `block`: `BasicBlock` or `Bottleneck`.
    - `layers`: the number of blocks of each stage.
    - `zero_init_residual`: initialize the last normalization of each block with 0.
    - `groups`, `width_per_group`: the groups of the 3x3 convolutions and their base width.
    - `replace_stride_with_dilation`: for the last three stages, whether dilation replaces the stride; other than three
      values raise ValueError.
    - `norm_layer`: a function from the number of channels to a normalization layer.
    """

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: NormFactory | None = None,
    ):
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        dilated = (False, False, False) if replace_stride_with_dilation is None else tuple(replace_stride_with_dilation)
        if len(dilated) != 3:
            raise OptionInvalid(
                f"replace_stride_with_dilation should be None or a 3-element tuple, got {dilated}",
                where=source.where(),
                hint="Pass None, or three bools.",
            )
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, 2, 3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        for i, planes in enumerate((128, 256, 512)):
            setattr(self, f"layer{i + 2}", self._make_layer(block, planes, layers[i + 1], 2, dilated[i]))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialize(zero_init_residual)

    def _initialize(self, zero_init_residual: bool) -> None:
        """Set the initial weights of convolutions (Kaiming normal, fan-out) and normalizations (weight 1, bias 0).

        With `zero_init_residual`, the last normalization of each block gets the weight 0, so that the block begins as
        the identity. The linear layer keeps its default weights.
        """
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d | nn.GroupNorm):
                init.constant_(m.weight, 1)
                init.constant_(m.bias, 0)
        # Each block then begins as the identity (arXiv:1706.02677).
        for m in self.modules() if zero_init_residual else ():
            if isinstance(m, Bottleneck | BasicBlock):
                init.constant_((m.bn3 if isinstance(m, Bottleneck) else m.bn2).weight, 0)

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False) -> nn.Sequential:
        """Return a stage of `blocks` blocks. The first has the stride, and a downsampling layer if the shape changes.

        With `dilate`, the stride is replaced by dilation: `dilation` of the network is multiplied by it. The first
        block still has the previous dilation. `inplanes` of the network becomes the number of output channels.
        """
        # The downsampling layer is created before its block, which determines the order of random initial values.
        downsample, before, out_planes = None, self.dilation, planes * block.expansion
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        if stride != 1 or self.inplanes != out_planes:
            downsample = nn.Sequential(conv1x1(self.inplanes, out_planes, stride), self._norm_layer(out_planes))
        shared = (self.groups, self.base_width)
        members = [block(self.inplanes, planes, stride, downsample, *shared, before, self._norm_layer)]
        self.inplanes = out_planes
        members += [
            block(self.inplanes, planes, 1, None, *shared, self.dilation, self._norm_layer) for _ in range(1, blocks)
        ]
        return nn.Sequential(*members)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [N, classes] for images [N, 3, H, W]."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flatten(self.avgpool(x), 1))


def _make_builder(name: str, kind: str, block: Any, layers: Sequence[int], **facts: Any) -> Callable[..., Any]:
    """Return the function `name` that creates a ResNet of this architecture and loads weights if requested.

    `kind` names the weights of the architecture. `facts` are constructor arguments, which options of a call override.
    """

    def build(*, weights: Any = None, progress: bool = True, pretrained: bool = False, **options: Any) -> ResNet:
        model = ResNet(block, layers, **{**facts, **set_num_classes(weights, pretrained, options)})
        return load_weights(model, kind, weights, pretrained)  # type: ignore[return-value]

    build.__name__ = build.__qualname__ = name
    build.__doc__ = BUILDER_DOC.format(kind=kind)
    return build


resnet18 = _make_builder("resnet18", "ResNet18", BasicBlock, (2, 2, 2, 2))
resnet34 = _make_builder("resnet34", "ResNet34", BasicBlock, (3, 4, 6, 3))
resnet50 = _make_builder("resnet50", "ResNet50", Bottleneck, (3, 4, 6, 3))
resnet101 = _make_builder("resnet101", "ResNet101", Bottleneck, (3, 4, 23, 3))
resnet152 = _make_builder("resnet152", "ResNet152", Bottleneck, (3, 8, 36, 3))
resnext50_32x4d = _make_builder(
    "resnext50_32x4d", "ResNeXt50_32X4D", Bottleneck, (3, 4, 6, 3), groups=32, width_per_group=4
)
resnext101_32x8d = _make_builder(
    "resnext101_32x8d", "ResNeXt101_32X8D", Bottleneck, (3, 4, 23, 3), groups=32, width_per_group=8
)
wide_resnet50_2 = _make_builder("wide_resnet50_2", "Wide_ResNet50_2", Bottleneck, (3, 4, 6, 3), width_per_group=128)
wide_resnet101_2 = _make_builder("wide_resnet101_2", "Wide_ResNet101_2", Bottleneck, (3, 4, 23, 3), width_per_group=128)
