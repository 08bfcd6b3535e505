"""The HTML report as one file with its data, style and script.

Its content security policy forbids loading anything else.
"""

import base64
import gzip
import hashlib
import html
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from lazytensor.system.terminal import replace_surrogates

_FOLDER = pathlib.Path(__file__).parent
SCRIPT_FILES = ("numbers.js", "drawing.js", "terms.js", "charts.js", "saving.js", "findings.js", "sections.js")
"""The JavaScript files, which are concatenated in this order."""


def format_html(contents: Mapping[str, Any]) -> str:
    """Return the HTML text of the report with the data `contents`, as returned by `build_contents`.

    Text from the user's script is escaped, and the content security policy allows only the report's own script.
    """
    contents = replace_surrogates(contents)
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPT_FILES)
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    # The policy allows only this script, so markup in a kernel's name could not run code.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{allowed}'"
    data, folded = _split_graphs(contents)
    values = {
        "policy": html.escape(policy),
        "title": html.escape(pathlib.PurePath(contents["script"]).name),
        "verdict": html.escape(_format_page_verdict(contents)),
        "style": style,
        "data": _to_embedded_json(data),
        "graph": base64.b64encode(gzip.compress(json.dumps(folded).encode(), mtime=0)).decode(),
        "script": script,
    }
    # The template has a few names in double braces, so no template library is needed.
    text = (_FOLDER / "page.html").read_text(encoding="utf-8")
    # Replace part by part, so that inserted values are not searched again.
    head, *rest = text.split("{{")
    return head + "".join(values[name] + after for name, _, after in (part.partition("}}") for part in rest))


def _format_page_verdict(contents: Mapping[str, Any]) -> str:
    """Return the verdict of the first step, or that of the plan of serving if the page has one."""
    if contents["serving"]:
        return str(contents["serving"][0]["verdict"])
    return _format_verdict(contents["steps"][0]) if contents["steps"] else "No step was compiled for a wafer."


def _format_verdict(step: Mapping[str, Any]) -> str:
    """Return the verdict on a step as plain text, or the reason for which the step does not fit."""
    mode = step["modes"][step["mode"]]
    return str(mode["verdict"] if mode["fits"] else f"The step does not fit. {mode['reason']}")


def _split_graphs(contents: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the data without the graphs, and the graphs, which are compressed and unpacked when they are opened."""
    return {key: value for key, value in contents.items() if key != "graphs"}, contents["graphs"]


def _to_embedded_json(data: Any) -> str:
    """Return data as JSON that is safe inside an HTML script element."""
    # Escape characters of tags: `</script>` in a name would end the data.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
