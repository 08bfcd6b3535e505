"""Segmentation losses: the Dice coefficient of each sample and class, and its combination with cross entropy.

With the background the results match values recorded from release 2.10. Without the background the original drops
elements of the image instead of class 0, depending on the image size. Here class 0 is dropped.
"""

from typing import Any

from lazytensor import nn
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing, ShapeError
from lazytensor.nn import functional as F

VOLUME_AXES = (2, 3, 4)
"""The axes of depth, height and width, which are summed for each sample and class."""


class DiceLoss:
    """The Dice coefficient 2 |x y| / (|x| + |y|) of predictions and labels, for each sample and class.

    As recorded from release 2.10, the result is the coefficient and not 1 minus it. Calling the object takes
    `prediction` [N, C, D, H, W] and class indices `target` [N, D, H, W]; other shapes raise ShapeError. The result is
    [N, C], or [N, C - 1] without the background. `input_shape` has no effect, as in the original.

    - `use_softmax`: apply softmax over the classes to the predictions first.
    - `include_background`: include class 0 in the result.
    - `to_onehot_y`, `to_onehot_x`, `use_argmax`: values other than the defaults raise OptionMissing.
    """

    def __init__(
        self,
        num_classes: int,
        to_onehot_y: bool = True,
        to_onehot_x: bool = False,
        use_softmax: bool = True,
        use_argmax: bool = False,
        include_background: bool = False,
    ):
        if (to_onehot_y, to_onehot_x, use_argmax) != (True, False, False):
            raise OptionMissing(
                "DiceLoss supports only class indices as targets, and predictions without to_onehot_x and use_argmax",
                where=source.where(),
                hint="Leave to_onehot_y, to_onehot_x and use_argmax at their defaults.",
            )
        self.num_classes, self.use_softmax, self.include_background = num_classes, use_softmax, include_background

    def __call__(self, prediction: Tensor, target: Tensor, input_shape: Any) -> Tensor:
        """Return the coefficients [N, C], or [N, C - 1] without class 0, the background.

        `prediction` is [N, C, D, H, W], and `target` holds class indices [N, D, H, W]. Softmax over the classes comes
        first if `use_softmax` is set. A class without any score or label gives 0 / 0, which is NaN. `input_shape` has
        no effect.
        """
        _check(prediction, target, self.num_classes)
        scores: Any = nn.Softmax(dim=1)(prediction) if self.use_softmax else prediction
        wanted: Any = F.one_hot(target, self.num_classes)
        # Move the classes from the last dimension to the second, as in the predictions.
        wanted = wanted.permute(0, 4, 1, 2, 3)
        if not self.include_background:
            scores, wanted = scores[:, 1:], wanted[:, 1:]
        # As recorded, no term is added to the denominator. With softmax it is positive.
        overlap: Tensor = 2 * (scores * wanted).sum(VOLUME_AXES) / (scores.sum(VOLUME_AXES) + wanted.sum(VOLUME_AXES))
        return overlap


class DiceCELoss(nn.Module):
    """The loss `wc` * cross entropy + `wd` * (1 - mean Dice coefficient).

    It takes the shapes and `include_background` of `DiceLoss`.
    """

    def __init__(self, num_classes: int, include_background: bool, wc: float = 0.5, wd: float = 0.5):
        super().__init__()
        self.wc, self.wd = wc, wd
        self.entropy = nn.CrossEntropyLoss()
        self.dice = DiceLoss(num_classes, include_background=include_background)

    def forward(self, outputs: Tensor, labels: Tensor, input_shape: Any) -> Tensor:
        """Return the loss as a scalar tensor. `input_shape` has no effect."""
        dice: Any = self.dice(outputs, labels, input_shape)
        loss: Tensor = self.wc * self.entropy(outputs, labels) + self.wd * (1 - dice.mean())
        return loss


def _check(prediction: Tensor, target: Tensor, num_classes: int) -> None:
    extents = prediction.spec.shape
    if len(extents) != 5 or extents[1] != num_classes or target.spec.shape != (extents[0], *extents[2:]):
        raise ShapeError(
            f"DiceLoss of {num_classes} classes got predictions {list(extents)} and targets {list(target.spec.shape)}",
            where=source.where(),
            hint="Give predictions [N, C, D, H, W] and targets [N, D, H, W], with D = 1 for images in two dimensions.",
        )
