"""Record the types of errors that PyTorch raises for bad calls, once, into bad_calls.json.

    python tests/golden/record_bad_calls.py        # in an environment with torch and numpy

`tests/campaign/test_bad_calls.py` compares them. There is a text for each seed, and in it a letter for each case: that
of the type in `types`, where "" stands for a call that runs.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
SEEDS, CASES = (1, 6, 13), 2000


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent))
    import torch

    from tests.campaign.calls import asked, drawn

    errors = {seed: [asked(torch, drawn(seed, case)) for case in range(CASES)] for seed in SEEDS}
    names = {seed: ["" if e is None else type(e).__name__ for e in some] for seed, some in errors.items()}
    kinds = sorted({name for some in names.values() for name in some})
    letters = {name: chr(ord("a") + k) for k, name in enumerate(kinds)}
    texts = {seed: "".join(letters[name] for name in some) for seed, some in names.items()}
    recorded = {"types": {letter: name for name, letter in letters.items()}, "seeds": texts}
    (HERE / "bad_calls.json").write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
