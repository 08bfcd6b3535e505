"""Record what the vendor's front end says of drawn modules: `python tests/golden/record_csx_answers.py N SEED PYTHON`.

PYTHON is an interpreter with cerebras_pytorch 2.10.0. Each record has the script, the answer, and by what ours differs.
"""

import gzip
import json
import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tests.campaign import cirh_texts, csx, csx_programs

GOLDEN = pathlib.Path(__file__).with_name("csx_answers.json.gz")


def differs(record: dict[str, Any], answer: csx.Answer) -> str:
    """Return by what an answer differs from the recorded one: "verdict", "line", "text", or nothing."""
    if answer["end"] != record["end"]:
        return "verdict"
    if record["end"] == "refused" and not csx.is_at_line(record["source"], record, answer):
        return "line"
    return "text" if record["text"] and cirh_texts.differences(answer["text"], record["text"]) else ""


def main(count: int, seed: int, python: str) -> None:
    """Ask both front ends of `count` scripts and write the records."""
    import cstorch_compat  # noqa: PLC0415  (reading the records does not need it)

    cstorch_compat.install()
    real, ours = csx.Server(python, "real"), csx.Server(sys.executable, "ours")
    records, number = list[dict[str, Any]](), 0
    while len(records) < count:
        script = csx_programs.draw(seed, number)
        number += 1
        if script is None:
            continue
        source = script.text()
        answer = real.ask(source)
        if answer["end"] == "lost":
            continue
        text = cirh_texts.without_locations(answer["text"]) if answer["end"] == "accepted" else ""
        record = {"source": source, "end": answer["end"], "line": answer["line"], "text": text}
        records.append(record | {"differs": differs(record, ours.ask(source))})
    with gzip.GzipFile(GOLDEN, "wb", mtime=0) as file:
        file.write(json.dumps(records).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
