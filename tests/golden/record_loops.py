"""Record what the real package answers to training loops, once, into loops.json.

    python tests/golden/record_loops.py PYTHON     # an interpreter with cerebras_pytorch 2.10.0

`tests/campaign/test_loops.py` compares them. An answer has the printed lines and the error, on the CPU and on CSX with
validate_only. A loop is recorded with its answers, since the campaign may draw other ones from the same seed later.
"""

import json
import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.campaign.loops.drawing import Loop, drawn
from tests.campaign.loops.recorded import BACKENDS, GOLDEN, has_defect, written
from tests.campaign.loops.rendering import script
from tests.campaign.loops.serving import Servers

SEED, DRAWN = 100, 12
"""Drawn loops that the real package runs to the end on its CPU, beside those of the claims."""
MOST_CHARACTERS = 2500
"""Of the answers to a drawn loop."""

LOSS = {"kind": "step", "is_inside": False, "takes": ["loss"], "reads": []}
TRAIN = {"kind": "train", "steps": 2, "checkpoint_steps": 1}
LINEAR = ["Linear", {"initial": 0.1, "end": 0.0, "total_iters": 5}]
EXPONENTIAL = ["Exponential", {"initial": 0.1, "total_iters": 5, "decay_rate": 0.5, "staircase": False}]
GMP = {"algorithm": "gmp", "init_method": "topk", "schedule": ["exp", 0.1, 0.5], "update": {"freq": 1, "start": 1}}


def _saving(*parts: str, steps: int = 2, **entries: Any) -> Loop:
    run = {"kind": "train", "steps": steps, "checkpoint_steps": steps}
    return {"saves": list(parts), "runs": [run], "closures": [LOSS], **entries}


CLAIMS: dict[str, Loop] = {
    "the step after the loop is one past the last": {"closures": [LOSS], "after": ["iteration"]},
    "a closure called before the loop waits for its first batch": {
        "before": ["closure"],
        "loop_reads": ["kind"],
        "closures": [LOSS],
    },
    "a closure called between loops waits for the next one": {
        "runs": [TRAIN, TRAIN],
        "between": ["closure"],
        "closures": [LOSS],
    },
    "a closure called after the last loop does not run": {"after": ["closure"], "closures": [LOSS]},
    "weights are not read before a validated loop": {"before": ["weight"], "closures": [LOSS]},
    "weights are not read after a validated loop": {"after": ["weight"], "closures": [LOSS]},
    "metrics are not read after a validated loop": {
        "after": ["metric"],
        "metrics": [["AccuracyMetric", {}]],
        "closures": [LOSS],
    },
    "the state of a scaled schedule has the original's names": _saving("schedule", schedule=["ScalePerParam", LINEAR]),
    "a sequence counts the parts of a chain in it": _saving(
        "model", steps=4, schedule=["Sequential", [["Chained", [LINEAR, EXPONENTIAL]], LINEAR], [3]]
    ),
    "a chain does not count the parts of a chain in it": _saving(
        "model", steps=4, schedule=["Chained", [["Chained", [LINEAR, EXPONENTIAL]], LINEAR]]
    ),
    "labels of int32 are for CSX only": {"labels": "int32", "closures": [LOSS]},
    "recall at k is a number": {
        "metrics": [["RecallAtKMetric", {"k": 2}]],
        "closures": [LOSS, {"kind": "step", "is_inside": True, "takes": ["metric"], "reads": ["metric"]}],
    },
    "the area under a curve is a number": {
        "metrics": [["AUCMetric", {"num_thresholds": 5}]],
        "closures": [LOSS, {"kind": "step", "is_inside": True, "takes": ["metric"], "reads": ["metric"]}],
    },
    "CSX copies no computed tensor into a weight": {"runs": [TRAIN, TRAIN], "between": ["copy"], "closures": [LOSS]},
    "CSX copies a computed tensor into the data of a weight": {
        "runs": [TRAIN, TRAIN],
        "between": ["data"],
        "closures": [LOSS],
    },
    "CSX copies a computed tensor into a weight that was changed in place": {
        "runs": [TRAIN, TRAIN],
        "between": ["weights", "copy"],
        "closures": [LOSS],
    },
    "an optimizer without state has empty entries for masked weights": _saving(
        "optimizer", sparsity={"algorithm": "static", "sparsity": 0.3, "init_method": "topk"}
    ),
    "the settings of a group are in the order of the script": _saving(
        "optimizer", groups=2, optimizer=["AdamW", {"lr": 0.1}], schedule=["ScalePerParam", LINEAR]
    ),
    "cbfloat16 is refused where a closure takes it": {
        "half": "cbfloat16",
        "returns": ["loss", "out"],
        "closures": [{"kind": "step", "is_inside": False, "takes": ["out"], "reads": []}],
    },
    "gradients of one loop are set to zero in the next": {
        "runs": [TRAIN, TRAIN],
        "zero_grad": "zeros",
        "closures": [LOSS],
    },
    "gradients that no optimizer forgets do not enter the next loop": {
        "runs": [TRAIN, TRAIN],
        "optimizer": ["Muon", {"lr": 0.1}],
        "closures": [LOSS],
    },
    "SET grows where the next numbers of the generator are largest": _saving(
        "model",
        steps=3,
        sparsity={"algorithm": "set", "sparsity": 0.5, "init_method": "topk", "update": {"freq": 2, "start": 1}},
    ),
    "a class that does not occur counts as 0 in a macro average": {
        "layers": [["Linear", 3]],
        "rows": 2,
        "metrics": [["FBetaScoreMetric", {"num_classes": 3, "average_type": "macro"}]],
        "closures": [{**LOSS, "reads": ["metric"]}],
    },
    "a schedule decays the weights of Lion": _saving(
        "model", optimizer=["Lion", {"lr": 0.1, "weight_decay": 0.1}], decay_schedule=LINEAR
    ),
    "a frozen weight stays dense": _saving(
        "model", steps=3, layers=[["Linear", 4], ["Frozen"], ["Tanh"], ["Linear", 3]], sparsity=GMP
    ),
    "an unused weight stays dense": _saving(
        "model", steps=3, layers=[["Linear", 4], ["Unused"], ["Tanh"], ["Linear", 3]], sparsity=GMP
    ),
    "a step that leaves its batch out is refused": {
        "runs": [{"kind": "eval", "steps": 2, "checkpoint_steps": 2}],
        "closures": [{"kind": "checkpoint", "is_inside": True, "takes": ["weight"], "reads": []}],
    },
}
"""What each loop shows: one for each kind of difference that the campaign found."""


def answered(servers: Servers, loop: Loop) -> dict[str, Any]:
    """Return a loop with the real package's answers, except for those that a defect of it ended."""
    text = script(loop)
    answers = {backend: servers.answer("real", text, backend) for backend in BACKENDS}
    return {"loop": loop, **{b: written(answer, text) for b, answer in answers.items() if not has_defect(answer)}}


def record(python: str) -> dict[str, Any]:
    """Return the loops by name, each with the answers of an interpreter that has the real package."""
    with Servers(python) as servers:
        entries = {name: answered(servers, loop) for name, loop in CLAIMS.items()}
        number = 0
        while len(entries) < len(CLAIMS) + DRAWN:
            found = answered(servers, drawn(SEED, number))
            is_whole = "V" in found and "CPU" in found and found["CPU"]["error"] is None
            if is_whole and found["CPU"]["lines"] and len(json.dumps(found)) < MOST_CHARACTERS:
                entries[f"loop {number} of seed {SEED}"] = found
            number += 1
    return entries


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in record(sys.argv[1]).items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
