"""Rules on single function calls of a step: calls that fail on the cluster or compute something else there.

Each `_find_...` function returns a detail for the finding ("" for no detail), or None if its rule does not apply.
"""

from collections.abc import Callable
from typing import Any

from cstorch_compat.check import origins
from cstorch_compat.check.findings import Findings
from cstorch_compat.check.watched_calls import FunctionCall
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor
from lazytensor.nn import Embedding

MIN_BIG_VOCABULARY_CLASSES = 16_384
"""Smallest number of classes for which a loss counts as one over a vocabulary. The reports concern language models."""
NUMBER_ARGUMENTS = {
    "add": ("alpha",),
    "sub": ("alpha",),
    "addcmul": ("value",),
    "addcdiv": ("value",),
    "addmm": ("alpha", "beta"),
}
"""Keyword arguments that must be Python numbers in PyTorch, by function."""

CallRule = Callable[[FunctionCall], str | None]
"""A function of a call that returns the detail of a finding, or None if the rule does not apply."""


def _find_fused_attention(call: FunctionCall) -> str | None:
    """Return "" for scaled dot product attention and for layers that use it, else None."""
    names = ("MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder")
    layers = (*names, "TransformerEncoderLayer", "TransformerDecoderLayer")
    return "" if call.short in ("scaled_dot_product_attention", *layers) else None


def _find_big_vocabulary(call: FunctionCall) -> str | None:
    """Return the number of classes of a cross entropy or NLL loss as text if it is at least MIN_BIG_VOCABULARY_CLASSES.

    Return None for fewer classes and for other calls. The classes are dimension 1 of the input, or 0 if it is 1-D.
    """
    logits = call.argument(0, "input")
    if call.short not in ("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss") or not isinstance(logits, Tensor):
        return None
    # The class dimension is the second one, as in PyTorch, or the only one.
    classes = logits.shape[1 if logits.ndim > 1 else 0]
    return f"{classes:,} classes" if classes >= MIN_BIG_VOCABULARY_CLASSES else None


def _find_norm_of_weights(call: FunctionCall) -> str | None:
    """Return a detail if the input of a layer, RMS or group normalization depends only on weights, else None."""
    if call.short not in ("layer_norm", "LayerNorm", "rms_norm", "RMSNorm", "group_norm", "GroupNorm"):
        return None
    x = call.argument(0, "input")
    return (
        "its input does not depend on the batch" if isinstance(x, Tensor) and origins.is_from_weights_only(x) else None
    )


SLICING_FUNCTIONS = frozenset(
    """split chunk narrow select unbind split_with_sizes tensor_split hsplit vsplit dsplit unsafe_split
    unsafe_chunk""".split()
)
"""Functions that take a part of a tensor."""


def _find_sliced_tensor(call: FunctionCall) -> Tensor | None:
    """Return the tensor of which a call takes a part by integers or slices.

    Return None for other calls, and for indices that select everything, such as `:` and None.
    """
    x = call.argument(0, "input")
    if not isinstance(x, Tensor):
        return None
    if call.short in SLICING_FUNCTIONS:
        return x
    if call.short != "__getitem__":
        return None
    # x[:] and x[None] select all elements and are no slices on the wafer.
    return x if any(_is_partial_index(p) for p in _as_index_tuple(call.args[1])) else None


def _as_index_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_partial_index(part: Any) -> bool:
    """Return whether an index entry is an integer or a slice other than `:`."""
    if isinstance(part, slice):
        return part != slice(None)
    return isinstance(part, int) and not isinstance(part, bool)


def _find_weight_slice(call: FunctionCall) -> str | None:
    """Return "of NAME" if a call slices the weight NAME, else None."""
    x = _find_sliced_tensor(call)
    state = origins.find_state_name(x) if x is not None else None
    return f"of {state}" if state is not None else None


def _find_slice(call: FunctionCall) -> str | None:
    """Return "" if a call slices a tensor that the step computes or the batch.

    Return None for weights and constants.
    """
    x = _find_sliced_tensor(call)
    # Slices of weights have their own rule. The compiler computes slices of constants.
    if x is None or origins.find_state_name(x) is not None or not origins.is_traced(x.node):
        return None
    return ""


def _find_transposed_weight(call: FunctionCall) -> str | None:
    """Return "of NAME" if an operand of a matrix product is the transposed weight NAME, else None."""
    if call.short not in ("matmul", "mm", "bmm", "__matmul__", "__rmatmul__", "addmm"):
        return None
    for t in call.tensors():
        n = t.node
        # Skip casts and autograd markers between the product and the transpose.
        while n.op in ("cast", "convert", "detach", "variable"):
            n = n.inputs[0]
        state = origins.find_state_name(t)
        if n.op == "transpose" and state is not None:
            return f"of {state}"
    return None


def _find_gather_operands(call: FunctionCall) -> tuple[Tensor | None, list[Tensor]]:
    """Return the tensor that a call gathers from, and its index tensors.

    Calls that gather are indexing by integer tensors, `index_select`, `gather`, `take` and `take_along_dim`. For other
    calls the list of index tensors is empty.
    """
    x = call.argument(0, "input")
    if call.short == "__getitem__":
        # A bool mask is no gather. Its shape depends on data, which is another rule.
        picks = [p for p in _as_index_tuple(call.args[1]) if isinstance(p, Tensor) and p.dtype is not dt.bool_]
        return (x, picks) if isinstance(x, Tensor) else (None, [])
    # The position of the index among each function's arguments.
    place = {"index_select": 2, "gather": 2, "take": 1, "take_along_dim": 1}.get(call.short)
    if place is None:
        return None, []
    index = call.argument(place, "index", call.kwargs.get("indices"))
    return (x if isinstance(x, Tensor) else None), [index] if isinstance(index, Tensor) else []


def _find_indexed_weight(call: FunctionCall) -> str | None:
    """Return "of NAME" if a call gathers from the weight NAME, else None."""
    x, picks = _find_gather_operands(call)
    state = origins.find_state_name(x) if x is not None and picks else None
    return f"of {state}" if state is not None else None


def _find_constant_index(call: FunctionCall) -> str | None:
    """Return "" if the index of a gather or embedding is the same in every step, else None."""
    _, picks = _find_gather_operands(call)
    # An embedding's index is its first argument, and its table is a weight by design.
    if call.short == "embedding" or isinstance(call.layer, Embedding):
        index = call.argument(0, "input")
        picks = [index] if isinstance(index, Tensor) else []
    return "" if any(origins.is_constant(p) for p in picks) else None


def _find_bool_cat(call: FunctionCall) -> str | None:
    """Return "" if a call concatenates or stacks bool tensors, else None."""
    if call.short not in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"):
        return None
    return "" if any(t.dtype is dt.bool_ for t in call.tensors()) else None


def _find_counting(call: FunctionCall) -> str | None:
    """Return "" for `one_hot` and `bincount`, else None."""
    return "" if call.short in ("one_hot", "bincount") else None


def _find_bool_triangle(call: FunctionCall) -> str | None:
    """Return "" for `triu` of a bool tensor, else None."""
    if call.short not in ("triu", "triu_"):
        return None
    return "" if any(t.dtype is dt.bool_ for t in call.tensors()) else None


def _find_tensor_as_number(call: FunctionCall) -> str | None:
    """Return a detail if a tensor is passed where PyTorch expects a Python number, such as `alpha=`, else None."""
    for name in NUMBER_ARGUMENTS.get(call.short.removesuffix("_"), ()):
        if isinstance(call.kwargs.get(name), Tensor):
            return f"{name}= is a {call.kwargs[name].spec}"
    return None


CALL_RULES: dict[str, CallRule] = {
    "fused attention": _find_fused_attention,
    "big vocabulary": _find_big_vocabulary,
    "norm of weights": _find_norm_of_weights,
    "slice of weight": _find_weight_slice,
    "slice": _find_slice,
    "transposed weight": _find_transposed_weight,
    "indexed weight": _find_indexed_weight,
    "cat of bool": _find_bool_cat,
    "counting": _find_counting,
    "triangle of bool": _find_bool_triangle,
    "arange as index": _find_constant_index,
    "decay": _find_tensor_as_number,
}
"""The matching function of each rule, by rule key."""


def apply_call_rules(call: FunctionCall, findings: Findings) -> bool:
    """Add the findings of all rules that apply to `call`. Return whether the call is refused by one of them."""
    # Compare counts, because a rule may only increase the count of an existing finding.
    before = findings.count("refused")
    for rule, applies in CALL_RULES.items():
        detail = applies(call)
        if detail is not None:
            findings.add(rule, call.where, str(call), detail, shapes=call.shapes)
    return findings.count("refused") > before
