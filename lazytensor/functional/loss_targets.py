"""What labels and class weights of a loss have to be, and what PyTorch says of those that do not fit."""

from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type, host_half_type
from lazytensor.core.dtype import float64, int32, int64, uint8
from lazytensor.core.tensor import Tensor
from lazytensor.errors import CountInvalid, IndexInvalid, ShapeError
from lazytensor.functional.pointwise import cast_to
from lazytensor.functional.views import DTYPE_NAMES, view


def prepare_labels(input: Tensor, target: Tensor) -> Tensor:
    """The labels in the scores' shape without the dimension of classes, as integers that are looked up.

    Raises ShapeError for other shapes and types, and CountInvalid, which is a ValueError too, where there is not one
    label for each sample.
    """
    shape, labels = input.spec.shape, target.spec.shape
    wanted = (*shape[:1], *shape[2:]) if input.ndim > 1 else ()
    # One sample without a dimension for samples has a label with it or without.
    if input.ndim < 1 or (labels != wanted and not (input.ndim == 1 and labels == (1,))):
        lead = _batch_size_message(shape, labels)
        fault = CountInvalid if lead else ShapeError
        if not lead and len(shape) < 3:
            lead = "0D or 1D target tensor expected, multi-target not supported"
        raise fault(
            f"Expected target size {list(wanted)}, got {list(labels)}: the logits are {input.spec}, "
            f"the labels {target.spec}",
            where=source.where(),
            hint="Class scores are [N, C, ...] and the labels int64[N, ...].",
            lead=lead,
        )
    if target.dtype.kind not in "iu":
        raise ShapeError(
            f"expected target dtype to be Long or Byte, but got {DTYPE_NAMES.get(target.dtype, target.dtype.name)}",
            where=source.where(),
            hint="Use .long().",
        )
    # PyTorch takes bytes too, and a step that is traced for the wafer int32.
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
    """What PyTorch says of labels that are not as many as the samples; nothing if they are."""
    if not shape:
        return "Expected 1 or more dimensions (got 0)"
    if len(shape) == 1:
        is_list = len(labels) == 1
        return f"For 1D input, 1D target must have size 1, but got target size: {labels[0]}" if is_list else ""
    # A label without dimensions counts as none there.
    count = labels[0] if labels else 0
    return f"Expected input batch_size ({shape[0]}) to match target batch_size ({count})." if shape[0] != count else ""


def check_range(input: Tensor, target: Tensor, ignore_index: int) -> None:
    """Raises IndexInvalid for a label that is no class, where its value is known: not in a step that is recorded."""
    if (
        storage.thread_state.current is not None
        or storage.is_abstract
        or target.device.type == "meta"
        or not target.spec.size
    ):
        return
    n, classes = target.node, input.spec.shape[min(1, input.ndim - 1)]
    # Labels in another shape are the same; who asks for them would have all computed that is pending.
    while n.op == "reshape":
        n = n.inputs[0]
    labels = storage.value_of(n, "the labels of a loss")
    # Two passes for the good case, which is all but one.
    if labels.min() < 0 or labels.max() >= classes:
        wrong = labels[((labels < 0) | (labels >= classes)) & (labels != ignore_index)]
        if wrong.size:
            hint = (
                f"The scores are of {classes} classes: labels are 0 to {classes - 1}, or ignore_index={ignore_index}."
            )
            raise IndexInvalid(
                f"the label {wrong[0]} is no class",
                where=source.where(),
                hint=hint,
                lead=f"Target {wrong[0]} is out of bounds.",
            )


def class_weights(input: Tensor, weight: Tensor, *, of_labels: bool) -> Tensor:
    """The weights as [C].

    Raises ShapeError unless there is one for each class: in PyTorch's three texts, for labels of samples, labels of
    places and probabilities. Weights that labels are looked up in are of the type of the scores.
    """
    shape = weight.spec.shape
    classes = input.spec.shape[min(1, input.ndim - 1)]
    if of_labels and input.ndim > 2:
        # With places beside samples PyTorch counts the weights, however they are laid out.
        if weight.spec.size != classes or len([n for n in shape if n != 1]) > 1:
            _refuse_weights("weight tensor should be defined either for all or no classes", shape, classes)
    elif shape != (classes,):
        text = f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor"
        _refuse_weights(f"{'' if of_labels else 'cross_entropy: '}{text} of shape: {list(shape)}", shape, classes)
    # Automatic casts bring narrow types together; a wide one stays.
    is_cast = (half_type() or host_half_type()) is not None and float64 not in (input.dtype, weight.dtype)
    if of_labels and weight.dtype != input.dtype and not is_cast:
        of_input, of_weight = (DTYPE_NAMES.get(t.dtype, t.dtype.name) for t in (input, weight))
        raise ShapeError(
            f"expected scalar type {of_input} but found {of_weight}: the weights of classes are {weight.spec}",
            where=source.where(),
            hint="Give them as weight.to(input.dtype).",
        )
    return view(weight, -1)


def _refuse_weights(text: str, shape: tuple[int, ...], classes: int) -> None:
    hint = f"There are {classes} classes, and weights of shape {list(shape)}."
    raise ShapeError(text, where=source.where(), hint=hint)
