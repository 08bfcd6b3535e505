"""Losses of segmentation: the Dice coefficient of each sample and class, and its mix with cross entropy.

With the background the numbers are those recorded from release 2.10. Without it the original leaves out elements of
the image, which ones depends on its extents, in place of the class; here class 0 is left out.
"""

from typing import Any

from lazytensor import nn
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing, ShapeError
from lazytensor.nn import functional as F

# After the batch and the classes, so that each sample and class has a coefficient of its own.
VOLUME_AXES = (2, 3, 4)
"""The axes of depth, height and width."""


class DiceLoss:
    """2 |x y| / (|x| + |y|) of predictions [N, C, D, H, W] and classes [N, D, H, W]; as recorded, not 1 minus it.

    The result is [N, C], or [N, C - 1] without the background. `input_shape` is taken as by the original and changes
    nothing. Raises ShapeError for other shapes, OptionMissing for one-hot targets and for the argmax of predictions.
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
                "DiceLoss takes class numbers as targets, and predictions as they are or their softmax",
                where=source.where(),
                hint="Leave to_onehot_y, to_onehot_x and use_argmax at their defaults.",
            )
        self.num_classes, self.use_softmax, self.include_background = num_classes, use_softmax, include_background

    def __call__(self, prediction: Tensor, target: Tensor, input_shape: Any) -> Tensor:
        """The coefficients."""
        _check(prediction, target, self.num_classes)
        scores: Any = nn.Softmax(dim=1)(prediction) if self.use_softmax else prediction
        wanted: Any = F.one_hot(target, self.num_classes)
        # one_hot puts classes last, predictions have them second.
        wanted = wanted.permute(0, 4, 1, 2, 3)
        if not self.include_background:
            scores, wanted = scores[:, 1:], wanted[:, 1:]
        # Without a term that keeps the quotient finite, as recorded: softmax is positive everywhere, so the sum is.
        overlap: Tensor = 2 * (scores * wanted).sum(VOLUME_AXES) / (scores.sum(VOLUME_AXES) + wanted.sum(VOLUME_AXES))
        return overlap


class DiceCELoss(nn.Module):
    """wc times the cross entropy and wd times 1 minus the mean Dice coefficient, of the shapes that DiceLoss takes."""

    def __init__(self, num_classes: int, include_background: bool, wc: float = 0.5, wd: float = 0.5):
        super().__init__()
        self.wc, self.wd = wc, wd
        self.entropy = nn.CrossEntropyLoss()
        self.dice = DiceLoss(num_classes, include_background=include_background)

    def forward(self, outputs: Tensor, labels: Tensor, input_shape: Any) -> Tensor:
        """The loss, 0-d."""
        dice: Any = self.dice(outputs, labels, input_shape)
        loss: Tensor = self.wc * self.entropy(outputs, labels) + self.wd * (1 - dice.mean())
        return loss


def _check(prediction: Tensor, target: Tensor, num_classes: int) -> None:
    extents = prediction.spec.shape
    if len(extents) != 5 or extents[1] != num_classes or target.spec.shape != (extents[0], *extents[2:]):
        raise ShapeError(
            f"DiceLoss of {num_classes} classes got predictions {list(extents)} and classes {list(target.spec.shape)}",
            where=source.where(),
            hint="Give predictions [N, C, D, H, W] and classes [N, D, H, W]; a plane has D = 1.",
        )
