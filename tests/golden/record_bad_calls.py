"""Record the types of errors that PyTorch raises for bad calls, once, into bad_calls.json.

    python tests/golden/record_bad_calls.py        # in an environment with torch and numpy

`tests/campaign/test_bad_calls.py` compares them; "" stands for a call that runs.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
SEED, CASES = 1, 600


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent))
    import torch

    from tests.campaign.calls import asked, drawn

    errors = [asked(torch, drawn(SEED, case)) for case in range(CASES)]
    names = ["" if e is None else type(e).__name__ for e in errors]
    (HERE / "bad_calls.json").write_text(json.dumps(names, separators=(",", ":")) + "\n")
