"""Checks of class labels and class weights of a loss, with PyTorch's error messages."""

from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type, host_half_type
from lazytensor.core.dtype import float64, int32, int64, uint8
from lazytensor.core.tensor import Tensor
from lazytensor.errors import CountInvalid, IndexInvalid, ShapeError
from lazytensor.functional.pointwise import cast_to
from lazytensor.functional.views import DTYPE_NAMES, view


def prepare_labels(input: Tensor, target: Tensor) -> Tensor:
    """Return class labels as int64 in the shape of `input` without its class dimension.

    `input` holds scores [N, C, ...] or [C]. uint8 labels are converted, and int32 labels in a step for the wafer.
    Raises CountInvalid (a ShapeError and a ValueError) if the number of labels is not that of the samples. Raises
    ShapeError for other shapes and dtypes.
    """
    shape, labels = input.spec.shape, target.spec.shape
    wanted = (*shape[:1], *shape[2:]) if input.ndim > 1 else ()
    # The label of one unbatched sample may be 0-d or [1].
    if input.ndim < 1 or (labels != wanted and not (input.ndim == 1 and labels == (1,))):
        lead = _batch_size_message(shape, labels)
        fault = CountInvalid if lead else ShapeError
        if not lead and len(shape) < 3:
            lead = "0D or 1D target tensor expected, multi-target not supported"
        raise fault(
            f"Expected target size {list(wanted)}, got {list(labels)}: the logits are {input.spec}, "
            f"the labels {target.spec}",
            where=source.where(),
            hint="Pass class scores of shape [N, C, ...] and labels int64[N, ...].",
            lead=lead,
        )
    if target.dtype.kind not in "iu":
        raise ShapeError(
            f"expected target dtype to be Long or Byte, but got {DTYPE_NAMES.get(target.dtype, target.dtype.name)}",
            where=source.where(),
            hint="Use .long().",
        )
    # PyTorch accepts uint8, and a step for the wafer int32.
    if target.dtype is uint8 or (target.dtype is int32 and half_type() is not None):
        target = cast_to(target, int64)
    if target.dtype is not int64:
        raise ShapeError(
            f"expected scalar type Long but found {DTYPE_NAMES.get(target.dtype, target.dtype.name)}",
            where=source.where(),
            hint="Use .long().",
        )
    return target if labels == wanted else view(target, wanted)


def _batch_size_message(shape: tuple[int, ...], labels: tuple[int, ...]) -> str:
    """Return PyTorch's message if the number of labels differs from that of the samples, else "".

    `shape` is that of the scores, [N, C, ...] or [C], and `labels` that of the labels. Scores without dimensions always
    give a message.
    """
    if not shape:
        return "Expected 1 or more dimensions (got 0)"
    if len(shape) == 1:
        is_list = len(labels) == 1
        return f"For 1D input, 1D target must have size 1, but got target size: {labels[0]}" if is_list else ""
    # A 0-d label counts as no label here.
    count = labels[0] if labels else 0
    return f"Expected input batch_size ({shape[0]}) to match target batch_size ({count})." if shape[0] != count else ""


def check_range(input: Tensor, target: Tensor, ignore_index: int) -> None:
    """Raise IndexInvalid if a label other than `ignore_index` is no class of `input`.

    Inside a step, and where labels have no values, nothing is checked.
    """
    if (
        storage.thread_state.current is not None
        or storage.is_abstract
        or target.device.type == "meta"
        or not target.spec.size
    ):
        return
    classes = input.spec.shape[min(1, input.ndim - 1)]
    labels = storage.value_of(target.node, "the labels of a loss")
    # Valid labels need two passes only.
    if labels.min() < 0 or labels.max() >= classes:
        wrong = labels[((labels < 0) | (labels >= classes)) & (labels != ignore_index)]
        if wrong.size:
            hint = f"Use labels from 0 to {classes - 1} for {classes} classes, or ignore_index={ignore_index}."
            raise IndexInvalid(
                f"the label {wrong[0]} is not one of the {classes} classes",
                where=source.where(),
                hint=hint,
                lead=f"Target {wrong[0]} is out of bounds.",
            )


def class_weights(input: Tensor, weight: Tensor, *, of_labels: bool) -> Tensor:
    """Return class weights as a vector [C].

    `of_labels` is true if the target holds class indices, false for probabilities. Raises ShapeError unless there is
    one weight for each class, with PyTorch's message for each kind of target. For class indices the weights need the
    dtype of `input`, unless automatic casts are on.
    """
    shape = weight.spec.shape
    classes = input.spec.shape[min(1, input.ndim - 1)]
    if of_labels and input.ndim > 2:
        # With dimensions after C, PyTorch checks only the number of weights.
        if weight.spec.size != classes or len([n for n in shape if n != 1]) > 1:
            _refuse_weights("weight tensor should be defined either for all or no classes", shape, classes)
    elif shape != (classes,):
        text = f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor"
        _refuse_weights(f"{'' if of_labels else 'cross_entropy: '}{text} of shape: {list(shape)}", shape, classes)
    # Automatic casts convert all types but float64.
    is_cast = (half_type() or host_half_type()) is not None and float64 not in (input.dtype, weight.dtype)
    if of_labels and weight.dtype != input.dtype and not is_cast:
        of_input, of_weight = (DTYPE_NAMES.get(t.dtype, t.dtype.name) for t in (input, weight))
        raise ShapeError(
            f"expected scalar type {of_input} but found {of_weight}: the weights of classes are {weight.spec}",
            where=source.where(),
            hint="Convert the weights with weight.to(input.dtype).",
        )
    return view(weight, -1)


def _refuse_weights(text: str, shape: tuple[int, ...], classes: int) -> None:
    hint = f"Pass one weight for each of the {classes} classes, not weights of shape {list(shape)}."
    raise ShapeError(text, where=source.where(), hint=hint)
