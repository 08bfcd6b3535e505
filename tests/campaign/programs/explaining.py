"""Known differences from PyTorch that are not to be mended, and the patterns that recognise each."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.campaign.programs.comparing import Difference, Rows
from tests.campaign.programs.drawing import NAME, Drawn


@dataclass(frozen=True)
class Reason:
    """A reason, with patterns that all have to be found.

    kind: the kind of the difference.
    said: words of what one of the sides showed.
    statement: a pattern of the statement that was refused, or of those that name the variable.
    text: the sentence for the table.
    program: a pattern of the whole program.
    """

    kind: str
    said: str
    statement: str
    text: str
    program: str = ""


UNBOUND = (
    "PyTorch refuses an output of unbind or split whose base was changed when it is read; we do when it is written"
)
EXPANDED = "PyTorch gives the gradient of a sum as one element that is expanded, which it refuses to write to"
HOOKS_FIRST = "PyTorch calls hooks and functions before it comes to the values that are freed; we refuse first"
STRIDES = "a result of PyTorch has the strides of a turned operand; ours lie in order"

REASONS = (
    Reason(
        "refused by the second",
        "more than one element of the written-to tensor",
        "",
        "we refuse to write to views that show an element several times; PyTorch writes one element after the other",
    ),
    Reason(
        "refused by the second",
        "reads elements of an operand after it has written",
        "",
        "we refuse an operand that overlaps what is written; PyTorch's numbers depend on the order of its loop",
    ),
    Reason("refused by the second", "match the broadcast shape", "out=", "we refuse out= of another shape"),
    Reason("requires_grad", "", r"\.(var|std)\(", "PyTorch gives the variance of one element no second derivative"),
    Reason("value", "", r"\._version", "PyTorch counts the writes by which it loads or copies a tensor"),
    Reason(
        "refused by the first",
        "modified by an inplace operation",
        "create_graph",
        "PyTorch's formula of a second derivative keeps a value that ours does not need",
    ),
    Reason("length", "is a view and its base or another view of its base has been modified", "", UNBOUND),
    Reason("refused by the first", "is a view and its base or another view of its base has been modified", "", UNBOUND),
    Reason(
        "refused by the second",
        "backward through the graph a second time",
        "backward|grad",
        HOOKS_FIRST,
        r"register_(full_backward_)?hook",
    ),
    Reason("value", "nan", r"F\.gelu\(", "PyTorch's gelu of infinity is NaN; ours is infinity"),
    Reason(
        "value", "inf", "/|pow|reciprocal", "the sign of PyTorch's softshrink of 0 depends on the place", r"softshrink"
    ),
    Reason(
        "value",
        "",
        "",
        "PyTorch rounds the mean and the deviation of a batch to the type of half parameters",
        r"(Batch|Instance)Norm(.|\n)*\.to\(torch\.(bfloat16|float16)\)",
    ),
    Reason(
        "refused by the first",
        "modified by an inplace operation",
        "",
        "PyTorch's logsumexp of a number keeps the number",
        r"logsumexp\(dim=0\)",
    ),
    Reason(
        "refused by the first",
        "modified by an inplace operation",
        "",
        "PyTorch's median keeps its operand and its result",
        r"\.median\(\)",
    ),
    Reason(
        "refused by the first",
        "modified by an inplace operation",
        "",
        "PyTorch counts a copy of a tensor into itself as a change",
        r"\b(t\d+)(\.\w+\(\S*\)|\[\S*\])?\.copy_\(\1\)",
    ),
    Reason(
        "value",
        "",
        r"\.stride\(\)|\.is_contiguous\(\)",
        "the result of PyTorch's attention with batch_first is a transposed view",
        r"MultiheadAttention\(.*batch_first=True",
    ),
    Reason(
        "refused by the first",
        "a leaf Variable that requires grad is being used in an in-place operation",
        r"\[(\.\.\.|:)\S*\] [-+*/]= ",
        "PyTorch forgets the history of a view of a view that an index of all of it writes to",
    ),
    Reason(
        "value",
        "",
        r"pickle\.loads",
        "PyTorch pickles an expanded tensor as one element, which later writes change",
        r"\.expand\(",
    ),
    Reason(
        "value",
        "",
        r"\.(flatten\(\)|reshape\(-1\))(\[\S*\])?\.\w+_\(",
        "a result of PyTorch has the strides of a turned operand, so that a flat view of it is a copy",
        r"as_strided|transpose|permute|\.mT|\.T\b|batch_first|pickle\.loads",
    ),
    Reason(
        "refused by the first",
        "view size is not compatible",
        r"\.view\(-1\)",
        "a result of PyTorch has the strides of a turned operand, so that it is no view",
        r"as_strided|transpose|permute|movedim|\.mT|\.T\b",
    ),
    Reason(
        "refused by the second",
        "assignment destination is read-only",
        "",
        "an array of an expanded tensor refuses writes here",
        r"\.expand\(",
    ),
    Reason(
        "refused by the second",
        "Inplace update to inference tensor",
        "",
        "PyTorch's copy.copy of a tensor of inference mode is a normal tensor that shares the storage",
        r"copy\.copy\(",
    ),
    Reason(
        "refused by the second",
        "backward through the graph a second time",
        "backward|grad",
        "PyTorch's roll keeps nothing for backward, nor a remainder by a number; ours keep an operand",
        r"\.roll\(|% -?\d",
    ),
    Reason(
        "refused by the second",
        "refer to a single memory location",
        "",
        "strides of dimensions of extent 1 are free; PyTorch compares them",
        r"\.expand\(1, ",
    ),
    Reason("error class", "operator.invert", "~", "PyTorch refuses ~ of a float as a TypeError"),
    Reason(
        "refused by the first",
        "output 0 of MkldnnRnnLayer, is at version",
        "",
        "PyTorch's recurrent layers keep their result",
    ),
    Reason(
        "error class",
        "'tuple' object does not support item assignment",
        r"\.(chunk|split|unbind)\(",
        "the statement assigns to a tuple, which both refuse",
    ),
    Reason(
        "value",
        "",
        "",
        "PyTorch adds the gradients of LayerNorm's parameters in the half type of the input",
        r"LayerNorm(.|\n)*autocast",
    ),
    Reason(
        "value",
        "",
        "",
        "an optimizer makes a full step of a gradient that is rounding alone, where slopes of 1 and -1 cancel",
        r"optim\.(Ada|NAdam|RAdam|RMSprop|Rprop)(.|\n)*F\.(smooth_l1|l1|huber)_loss",
    ),
    Reason(
        "refused by the second",
        "to have the same dtype",
        r"einsum\(",
        "PyTorch's einsum takes two types if it sums over one element, where it multiplies elements",
    ),
    Reason(
        "refused by the first",
        "view size is not compatible",
        "",
        "the result of PyTorch's attention with batch_first is a transposed view",
        r"MultiheadAttention\(.*batch_first=True",
    ),
    Reason(
        "value",
        "",
        r"\.stride\(\)|\.is_contiguous\(\)|as_strided",
        STRIDES,
        r"as_strided|transpose|permute|movedim|\.mT|\.T\b|\[:0|empty\(",
    ),
    Reason(
        "value",
        "",
        r"\.(flatten\(\)|reshape\(-1\)|unfold\(\S+\))(\[\S*\])?\.\w+_\(",
        STRIDES,
        r"transpose|permute|movedim|\.mT|\.T\b|LSTM|GRU|RNN|unfold",
    ),
    Reason(
        "refused by the first",
        "A view was created in no_grad mode",
        "",
        "PyTorch refuses writes to views that were made without gradients; here they are views as any",
    ),
    Reason("value", "", r"copysign\(", "the sign of NaN is the processor's", r"\.(var|std|mean|log)\("),
)
GRADIENT_OF_SUM = r"^(g\d+) = torch\.autograd\.grad\(\w+\.(sum|mean)\(\), "
"""A pattern of the statements whose result PyTorch gives as an expanded element."""
IN_PLACE = re.compile(r"\w_\(|\] =|[-+*/]= |out=")


def reason(program: Drawn, found: Difference, left: Rows, right: Rows) -> str | None:
    """Return why two runs of a program differ, if it is known."""
    statement = _statement(program, found)
    said = f"{found.left} {found.right}"
    for known in REASONS:
        patterns = ((known.statement, statement), (known.program, program.text))
        if known.kind == found.kind and known.said in said and all(re.search(p, text) for p, text in patterns):
            return known.text
    if found.kind == "labels" and found.left == "crash":
        return "PyTorch ends the process"
    checks: tuple[Callable[[], str | None], ...] = (
        lambda: _of_integers(found, left),
        lambda: _of_one_place(found, statement, left),
        lambda: _of_expanded_gradient(program, found, statement),
        lambda: _of_constant_gradient(program, found),
        lambda: _of_nan(program, found, left),
        lambda: _after_freed_graph(program, found, left, right),
        lambda: _after_error(program, found, left, right),
        lambda: _after_refused_write(program, found, left, right),
    )
    return next((why for check in checks if (why := check()) is not None), None)


def _name(found: Difference) -> str:
    """Return the variable that differs; the label itself if it is no variable."""
    return found.label.partition(".")[0]


def _names_any(names: Iterable[str], text: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def _statement(program: Drawn, found: Difference) -> str:
    """Return the statement of a refusal, or all statements that name the variable of another difference."""
    number = re.fullmatch(r"statement (\d+)", found.label)
    if number:
        return program.statements[int(number[1])]
    return "\n".join(s for s in program.statements if _names_any([_name(found)], s))


def _tensor(name: str, rows: Rows) -> list[Any] | None:
    """Return the last entry of a tensor in the rows: its type, shape and so on."""
    entries = [row[1][0] for row in rows if row[0] == name and isinstance(row[1], list) and row[1]]
    tensors = [e for e in entries if isinstance(e, list) and e and e[0] == "tensor"]
    return tensors[-1] if tensors else None


def _of_integers(found: Difference, left: Rows) -> str | None:
    tensor = _tensor(_name(found), left)
    if found.kind != "requires_grad" or found.left is not True or tensor is None or "float" in tensor[1]:
        return None
    return "PyTorch lets an integer tensor require a gradient if a tensor that requires one is copied into it"


def _of_one_place(found: Difference, statement: str, left: Rows) -> str | None:
    """Return the reason for strides that differ only in dimensions of extent 1, or of a tensor without elements."""
    tensor = _tensor(_name(found), left)
    one, other = found.left, found.right
    if tensor is None or ".stride()" not in statement or not isinstance(one, list) or not isinstance(other, list):
        return None
    if not len(one) == len(other) == len(tensor[2]):
        return None
    is_free = 0 in tensor[2] or all(a == b or extent == 1 for a, b, extent in zip(one, other, tensor[2], strict=True))
    return "strides of dimensions of extent 1 and of no elements are free" if is_free else None


def _of_expanded_gradient(program: Drawn, found: Difference, statement: str) -> str | None:
    sources = {m[1] for s in program.statements if (m := re.match(GRADIENT_OF_SUM, s))}
    names = program.aliases(sources)
    if found.kind == "refused by the first":
        is_storage = "more than one element of the written-to" in str(found.left) or "setStorage" in str(found.left)
        return EXPANDED if is_storage and _names_any(names, statement) else None
    if found.kind == "value" and ".stride()" in statement and _name(found) in names:
        return EXPANDED
    is_written = any(_names_any(names, s) and IN_PLACE.search(s) for s in program.statements)
    is_reached = found.kind == "value" and is_written and _name(found) in program.computed_from(names)
    return EXPANDED if sources and is_reached else None


def _refused_by_both(left: Rows, right: Rows) -> set[int]:
    return {row[1] for row in left if row[0] == "error"} & {row[1] for row in right if row[0] == "error"}


def _after_error(program: Drawn, found: Difference, left: Rows, right: Rows) -> str | None:
    """Return the reason where both sides refused a statement that names the variable.

    What an operation has written before it refuses the rest is no promise of PyTorch.
    """
    if any(_names_any([_name(found)], program.statements[k]) for k in _refused_by_both(left, right)):
        return "both refused an operation on the variable, which may have written a part before"
    return None


def _of_constant_gradient(program: Drawn, found: Difference) -> str | None:
    if found.kind != "requires_grad" or found.left is not False:
        return None
    sources = set(re.findall(r"^(g\d+) = .*create_graph=True", program.text, re.MULTILINE))
    is_reached = bool(sources) and _name(found) in program.computed_from(sources)
    return "the second derivative is zero, and PyTorch's formula has none" if is_reached else None


def _of_nan(program: Drawn, found: Difference, left: Rows) -> str | None:
    """Return the reason for gradients of an extreme or a median that is NaN, and of an activation at NaN."""
    if found.kind != "value" or not (".gradient" in found.label or _name(found).startswith("g")):
        return None
    for name in re.findall(r"^(\w+) = \w+\.(?:median|max|min)\(\)", program.text, re.MULTILINE):
        tensor = _tensor(name, left)
        if tensor is not None and math.isnan(tensor[4][0]):
            return "PyTorch gives the gradient of a median or extreme that is NaN to all elements that are NaN"
    is_activated = re.search(r"float\('nan'\)(.|\n)*F\.(hard|relu6|elu|celu|selu|softshrink)", program.text)
    return "gradients of activations at NaN are 0, 1 or NaN" if is_activated else None


def _after_freed_graph(program: Drawn, found: Difference, left: Rows, right: Rows) -> str | None:
    """Return the reason for what a custom function changed in a walk back that both sides refused."""
    said = [str(row[3]) for row in left if row[0] == "error" and row[1] in _refused_by_both(left, right)]
    if found.kind != "value" or not any("backward through the graph a second time" in text for text in said):
        return None
    return HOOKS_FIRST if "a.data.add_(1)" in program.text else None


def _after_refused_write(program: Drawn, found: Difference, left: Rows, right: Rows) -> str | None:
    """Return the reason for values that depend on a tensor of inference mode whose change both sides refused."""
    refused = _refused_by_both(left, right)
    said = {row[1]: str(row[3]) for row in left if row[0] == "error"}
    for k in refused:
        if found.kind == "value" and "Inplace update to inference tensor" in said[k]:
            names = set(NAME.findall(program.statements[k]))
            if _name(found) in program.computed_from(names):
                return "PyTorch writes to a tensor of inference mode before it refuses the write"
    return None
