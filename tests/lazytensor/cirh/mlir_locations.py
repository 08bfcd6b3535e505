"""Reads the locations of MLIR text, by the grammar of its language reference."""

import re

STRING = re.compile(r'"((?:[^"\\\n]|\\[0-9A-F]{2})*)"')
Location = tuple[str, ...]


def parsed(text: str) -> tuple[str, list[tuple[str, str, int]]]:
    """The name of a location, and its frames, innermost first; a frame without a function has no name."""
    name, rest = _string(text)
    frames, rest = _frames(_after("(", rest))
    assert rest == ")", rest
    return name, frames


def _frames(text: str) -> tuple[list[tuple[str, str, int]], str]:
    if text.startswith("callsite("):
        callee, rest = _frames(_after("callsite(", text))
        callers, rest = _frames(_after(" at ", rest))
        return callee + callers, _after(")", rest)
    name, rest = _string(text)
    if rest.startswith("("):
        [(_, file, line)], rest = _frames(rest[1:])
        return [(name, file, line)], _after(")", rest)
    line, column, rest = re.fullmatch(r":(\d+):(\d+)(.*)", rest, re.DOTALL).groups()
    assert column == "0"  # as the vendor's front end prints every column
    return [("", name, int(line))], rest


def _string(text: str) -> tuple[str, str]:
    match = STRING.match(text)
    assert match, text
    raw = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), match[1].encode())
    return raw.decode(), text[match.end() :]


def _after(start: str, text: str) -> str:
    assert text.startswith(start), text
    return text[len(start) :]


def without_locations(text: str) -> str:
    """The text as it is printed without them."""
    kept = [line for line in text.splitlines() if not line.startswith("#loc")]
    return "\n".join([*(re.sub(r" loc\((unknown|#loc\d+)\)", "", line) for line in kept), ""])


def table(text: str) -> dict[str, str]:
    """What each reference of a text stands for; every one is defined once, and every line of the body has one."""
    rows = re.findall(r"^(#loc\d+) = loc\((.*)\)$", text, re.MULTILINE)
    places = dict(rows)
    assert len(places) == len(rows) == len(set(places.values())), rows
    assert text.startswith("#loc0 = loc(unknown)\nmodule")
    # The head of the function goes on behind its brace; all else ends with its location.
    lines = [line for line in text.splitlines() if not re.match(r"#loc|module|  func", line)]
    used = [re.search(r" loc\((#loc\d+)\)$", line)[1] for line in lines]
    # Numbered as they come.
    assert list(dict.fromkeys([*(u for u in used if u != "#loc0")])) == list(places)[1:]
    return places
