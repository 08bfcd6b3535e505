"""The page as one HTML file: data, style and script lie in it, and a policy that lets it load nothing else."""

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
SCRIPT_FILES = ("numbers.js", "drawing.js", "charts.js", "sections.js")
"""Read in this order, as one script."""


def format_html(contents: Mapping[str, Any]) -> str:
    """The page of `contents`. What comes from the user's script is text in it, whatever it says."""
    contents = replace_surrogates(contents)
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPT_FILES)
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    # The policy names the one script that may run: markup in a kernel's name could run nothing even if it got through.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{allowed}'"
    data, folded = _split_graphs(contents)
    first = contents["steps"][0] if contents["steps"] else None
    values = {
        "policy": html.escape(policy),
        "title": html.escape(pathlib.PurePath(contents["script"]).name),
        "verdict": html.escape(_format_verdict(first) if first else "Nothing was compiled for a wafer."),
        "style": style,
        "data": _to_embedded_json(data),
        "graph": base64.b64encode(gzip.compress(json.dumps(folded).encode(), mtime=0)).decode(),
        "script": script,
    }
    # Nothing here is a template of a library: a few names between braces need none.
    text = (_FOLDER / "page.html").read_text(encoding="utf-8")
    # By parts, so that nothing of a value is looked at again.
    head, *rest = text.split("{{")
    return head + "".join(values[name] + after for name, _, after in (part.partition("}}") for part in rest))


def _format_verdict(step: Mapping[str, Any]) -> str:
    mode = step["modes"][step["mode"]]
    return str(mode["verdict"] if mode["fits"] else f"It does not fit. {mode['reason']}")


def _split_graphs(contents: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """What is shown at once, and the graphs, which are long and unpacked when they are first opened."""
    return {key: value for key, value in contents.items() if key != "graphs"}, contents["graphs"]


def _to_embedded_json(data: Any) -> str:
    # Nothing in it may look like a tag: `</script>` in a name would end the data.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
