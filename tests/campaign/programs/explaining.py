"""Differences whose reason is known, and which stay: each with the words by which it is told from others."""

import re
from dataclasses import dataclass

from tests.campaign.programs.comparing import Difference, Rows
from tests.campaign.programs.drawing import Drawn


@dataclass(frozen=True)
class Reason:
    """A reason: the kind of the difference, what one side said or the statement has, and the sentence for the table."""

    kind: str
    said: str
    statement: str
    text: str


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
    Reason(
        "length",
        "Output 0 of Unbind is a view and its base",
        "",
        "PyTorch refuses an output of unbind whose base was changed when it is read; we do when it is written",
    ),
    Reason(
        "refused by the first",
        "Output 0 of Unbind is a view and its base",
        "",
        "PyTorch refuses an output of unbind whose base was changed when it is read; we do when it is written",
    ),
)


def reason(program: Drawn, found: Difference, left: Rows, right: Rows) -> str | None:
    """Return why two runs of a program differ, if it is known."""
    statement = _statement(program, found)
    for known in REASONS:
        said = f"{found.left} {found.right}"
        if known.kind == found.kind and known.said in said and re.search(known.statement, statement):
            return known.text
    return _after_error(program, found, left, right)


def _statement(program: Drawn, found: Difference) -> str:
    """Return the statement of a refusal, or all statements that name the variable of another difference."""
    number = re.fullmatch(r"statement (\d+)", found.label)
    if number:
        return program.statements[int(number[1])]
    name = re.escape(found.label.partition(".")[0])
    return "\n".join(s for s in program.statements if re.search(rf"\b{name}\b", s))


def _after_error(program: Drawn, found: Difference, left: Rows, right: Rows) -> str | None:
    """Return the reason where both sides refused a statement that names the variable.

    What an operation has written before it refuses the rest is no promise of PyTorch.
    """
    name = re.escape(found.label.partition(".")[0])
    refused = {row[1] for row in left if row[0] == "error"} & {row[1] for row in right if row[0] == "error"}
    if any(re.search(rf"\b{name}\b", program.statements[k]) for k in refused):
        return "both refused an operation on the variable, which may have written a part before"
    return None
