"""Which calls of a step are risky on the cluster, or wrong in a way that only the call shows."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.check import origins
from cstorch_compat.check.findings import Findings
from cstorch_compat.check.watched_calls import FunctionCall
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor
from lazytensor.nn import Embedding

MIN_BIG_VOCABULARY_CLASSES = 16_384
"""Classes from which a loss counts as one over a vocabulary; the reports are of language models."""
NUMBER_ARGUMENTS = {
    "add": ("alpha",),
    "sub": ("alpha",),
    "addcmul": ("value",),
    "addcdiv": ("value",),
    "addmm": ("alpha", "beta"),
}
"""Arguments that are Python numbers in PyTorch, by function."""

CallRule = Callable[[FunctionCall], str | None]


def _find_fused_attention(call: FunctionCall) -> str | None:
    names = ("MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder")
    layers = (*names, "TransformerEncoderLayer", "TransformerDecoderLayer")
    return "" if call.short in ("scaled_dot_product_attention", *layers) else None


def _find_big_vocabulary(call: FunctionCall) -> str | None:
    logits = call.argument(0, "input")
    if call.short not in ("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss") or not isinstance(logits, Tensor):
        return None
    # The class dimension is the second one, as in PyTorch, or the only one.
    classes = logits.shape[1 if logits.ndim > 1 else 0]
    return f"{classes:,} classes" if classes >= MIN_BIG_VOCABULARY_CLASSES else None


def _find_norm_of_weights(call: FunctionCall) -> str | None:
    if call.short not in ("layer_norm", "LayerNorm", "rms_norm", "RMSNorm", "group_norm", "GroupNorm"):
        return None
    x = call.argument(0, "input")
    return "its input depends on no sample" if isinstance(x, Tensor) and origins.is_from_weights_only(x) else None


SLICING_FUNCTIONS = frozenset(
    """split chunk narrow select unbind split_with_sizes tensor_split hsplit vsplit dsplit unsafe_split
    unsafe_chunk""".split()
)


def _find_sliced_tensor(call: FunctionCall) -> Tensor | None:
    """The tensor of which a call takes a part by numbers."""
    x = call.argument(0, "input")
    if not isinstance(x, Tensor):
        return None
    if call.short in SLICING_FUNCTIONS:
        return x
    if call.short != "__getitem__":
        return None
    # x[:] and x[None] take the whole of it, and are no slices on the wafer either.
    return x if any(_is_partial_index(p) for p in _as_index_tuple(call.args[1])) else None


def _as_index_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_partial_index(part: Any) -> bool:
    if isinstance(part, slice):
        return part != slice(None)
    return isinstance(part, int) and not isinstance(part, bool)


def _find_weight_slice(call: FunctionCall) -> str | None:
    x = _find_sliced_tensor(call)
    state = origins.find_state_name(x) if x is not None else None
    return f"of {state}" if state is not None else None


def _find_slice(call: FunctionCall) -> str | None:
    x = _find_sliced_tensor(call)
    # A slice of a weight has a rule of its own, and one of a constant is computed by the compiler.
    if x is None or origins.find_state_name(x) is not None or not origins.is_traced(x):
        return None
    return ""


def _find_transposed_weight(call: FunctionCall) -> str | None:
    if call.short not in ("matmul", "mm", "bmm", "__matmul__", "__rmatmul__", "addmm"):
        return None
    for t in call.tensors():
        n = t.node
        # Casts and the marks of gradients stand between the call and the transpose that it means.
        while n.op in ("cast", "convert", "detach", "variable"):
            n = n.inputs[0]
        state = origins.find_state_name(t)
        if n.op == "transpose" and state is not None:
            return f"of {state}"
    return None


def _find_gather_operands(call: FunctionCall) -> tuple[Tensor | None, list[Tensor]]:
    """The tensor that a call gathers from, and the tensors that say where."""
    x = call.argument(0, "input")
    if call.short == "__getitem__":
        # An index by a bool mask gathers nothing: its shape depends on data, which has its own rule.
        picks = [p for p in _as_index_tuple(call.args[1]) if isinstance(p, Tensor) and p.dtype is not dt.bool_]
        return (x, picks) if isinstance(x, Tensor) else (None, [])
    # Where each of the functions that gather has its index.
    place = {"index_select": 2, "gather": 2, "take": 1, "take_along_dim": 1}.get(call.short)
    if place is None:
        return None, []
    index = call.argument(place, "index", call.kwargs.get("indices"))
    return (x if isinstance(x, Tensor) else None), [index] if isinstance(index, Tensor) else []


def _find_indexed_weight(call: FunctionCall) -> str | None:
    x, picks = _find_gather_operands(call)
    state = origins.find_state_name(x) if x is not None and picks else None
    return f"of {state}" if state is not None else None


def _find_constant_index(call: FunctionCall) -> str | None:
    _, picks = _find_gather_operands(call)
    # An embedding gathers by its first argument, from a table that is a weight by intention.
    if call.short == "embedding" or isinstance(call.layer, Embedding):
        index = call.argument(0, "input")
        picks = [index] if isinstance(index, Tensor) else []
    return "" if any(origins.is_constant(p) for p in picks) else None


def _find_bool_cat(call: FunctionCall) -> str | None:
    if call.short not in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"):
        return None
    return "" if any(t.dtype is dt.bool_ for t in call.tensors()) else None


def _find_counting(call: FunctionCall) -> str | None:
    return "" if call.short in ("one_hot", "bincount") else None


def _find_bool_triangle(call: FunctionCall) -> str | None:
    if call.short not in ("triu", "triu_"):
        return None
    return "" if any(t.dtype is dt.bool_ for t in call.tensors()) else None


def _find_tensor_as_number(call: FunctionCall) -> str | None:
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


def apply_call_rules(call: FunctionCall, findings: Findings) -> bool:
    """Note what the rules say of a call. Returns whether it is refused, so that what it does inside needs no word."""
    # What is refused is told by comparing counts, since a rule may only add to a finding that is there.
    before = findings.count("refused")
    for rule, applies in CALL_RULES.items():
        detail = applies(call)
        if detail is not None:
            findings.add(rule, call.where, str(call), detail, shapes=call.shapes)
    return findings.count("refused") > before
