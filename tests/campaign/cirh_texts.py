"""Compare two CIRH texts: operations, constants, arguments and results, without names of values and locations."""

import collections
import re
from dataclasses import dataclass

Lines = collections.Counter[str]


@dataclass(frozen=True)
class Content:
    """What a text says: operation lines with their counts, constants, arguments, results."""

    operations: Lines
    constants: frozenset[str]
    arguments: tuple[str, ...]
    results: tuple[str, ...]


def content(text: str) -> Content:
    """Return what a text of one function says.

    Values have no names; constants count once for each value and type; indices of aliased results are left out.
    """
    operations, constants, arguments, results = Lines(), set[str](), list[str](), list[str]()
    for line in map(str.strip, without_locations(text).splitlines()):
        if line.startswith("func"):
            head, _, tail = line.rpartition("->")
            for argument in re.split(r", (?=%)", head[head.index("(") + 1 :].rstrip(") ")):
                bare = re.sub(r"^%\w+: ", "", argument)
                arguments.append(re.sub(r"tf\.aliasing_output = \d+ : i64", "tf.aliasing_output", bare))
            results = re.findall(r"tensor<[^>]*>(?: \{[^}]*\})?", tail.split(" attributes")[0])
        elif line.startswith("%") and "=" in line:
            operation = re.sub(r"%[\w#]+(:\d+)?", "%", line.split("=", 1)[1].strip())
            if operation.startswith("cirh.Const"):
                constants.add(operation)
            else:
                operations[operation] += 1
    return Content(operations, frozenset(constants), tuple(sorted(arguments)), tuple(sorted(results)))


def without_locations(text: str) -> str:
    """Return the text without its ` loc(...)`, whose brackets and quotes may be nested."""
    parts, start = [], 0
    while (at := text.find(" loc(", start)) >= 0:
        parts.append(text[start:at])
        depth, is_quoted, start = 1, False, at + len(" loc(")
        while depth:
            character = text[start]
            is_quoted ^= character == '"'
            depth += 0 if is_quoted else (character == "(") - (character == ")")
            start += 1
    return "".join(parts) + text[start:]


def differences(ours: str, theirs: str) -> list[str]:
    """Return the lines by which two texts differ, with their counts on both sides; empty if the texts are equal."""
    a, b = content(ours), content(theirs)
    lines = []
    for mine, yours in ((a.operations, b.operations), (Lines(a.constants), Lines(b.constants))):
        lines += [f"{mine[o]} / {yours[o]}  {o}" for o in sorted(mine | yours) if mine[o] != yours[o]]
    for name in ("arguments", "results"):
        mine, yours = Lines(getattr(a, name)), Lines(getattr(b, name))
        lines += [f"{mine[o]} / {yours[o]}  {name}: {o}" for o in sorted(mine | yours) if mine[o] != yours[o]]
    return lines
