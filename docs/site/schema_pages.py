"""Tables of the fields of a JSON Schema."""

import json
import pathlib
from typing import Any


def tables(path: pathlib.Path) -> str:
    """Return a table for the document itself and one for each kind of object in it."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    kinds = [("The document", schema), *((f"Each {name}", kind) for name, kind in schema["$defs"].items())]
    return "\n\n".join(f"### {title}\n\n{_table(kind)}" for title, kind in kinds)


def _table(kind: dict[str, Any]) -> str:
    fields = kind["properties"].items()
    rows = [f"| `{name}` | {_type(field)} | {field.get('description', '')} |" for name, field in fields]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f'"{value}"' for value in field["enum"])
    if "const" in field:
        return f"always {json.dumps(field['const'])}"
    if field["type"] == "array" and "$ref" in field["items"]:
        return f"array of {field['items']['$ref'].rpartition('/')[2]}"
    return field["type"]
