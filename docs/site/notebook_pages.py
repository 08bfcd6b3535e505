"""A page for each chapter of the course: its cells with their stored outputs. Nothing is executed."""

import base64
import json
import pathlib
import re

MAX_OUTPUT_LINES = 200
"""A longer output is cut, with a note."""


def page(path: pathlib.Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(with_spaced_lists(source))
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(_fenced(source, "python"))
            parts += [_output(output, path.stem, pictures) for output in cell["outputs"]]
    return "\n\n".join(filter(None, parts)) + "\n", pictures


def _output(output: dict, stem: str, pictures: dict[str, bytes]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        name = f"{stem}_{len(pictures)}.png"
        pictures[name] = base64.b64decode("".join(data["image/png"]))
        return f"![A picture that the cell above draws]({name})"
    if "image/svg+xml" in data:
        name = f"{stem}_{len(pictures)}.svg"
        pictures[name] = "".join(data["image/svg+xml"]).encode()
        return f"![A drawing that the cell above makes]({name})"
    if "text/markdown" in data:
        return with_spaced_lists("".join(data["text/markdown"]))
    text = "".join(output.get("text", data.get("text/plain", output.get("traceback", ""))))
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip("\n")
    lines = text.split("\n")
    if len(lines) > MAX_OUTPUT_LINES:
        lines = [*lines[:MAX_OUTPUT_LINES], f"... and {len(lines) - MAX_OUTPUT_LINES} lines more in the notebook"]
    return f'<div class="output" markdown>\n{_fenced(chr(10).join(lines), "text")}\n</div>' if text else ""


def _fenced(text: str, language: str) -> str:
    ticks = "`" * max(3, max(map(len, re.findall(r"`+", text)), default=0) + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def with_spaced_lists(text: str) -> str:
    """Put the empty line before lists that Python-Markdown needs and code hosts do without."""
    return re.sub(r"(?m)^(?!\s*(?:[-*]|\d+\.) )(\S.*)\n(?=(?:[-*]|\d+\.) )", r"\1\n\n", text)
