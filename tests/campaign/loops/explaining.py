"""The differences that are known, each with its reason."""

import re
from typing import Any

from tests.campaign.loops.comparing import Difference
from tests.campaign.loops.drawing import Loop
from tests.campaign.loops.serving import Answer

REAL_DEFECTS = {
    "'AmpState' object has no attribute 'handle'": "its dynamic loss scale does not run on the CPU",
    "Failed to mark tensor": "its dynamic loss scale does not run on the CPU",
    "status 11": "it crashes",
    "stashed grads not supported": "its scaler finds gradients that zero_grad(set_to_none=False) has left",
    "outside.mdl does not exist": "its save does not always write a file after validate_only",
    "Cannot get the backing tensor data": "its save does not always write a file after validate_only",
    "got multiple values for argument 'steps'": "its Muon does not run on the CPU",
}
"""Texts of errors that a defect of the real package raises, and the defect."""


def known_reason(loop: Loop, pair: str, found: Difference, left: Answer, right: Answer) -> str | None:
    """Return the reason of a difference if it is one that is known."""
    if pair != "CPU and CSX" and left.error is not None:
        for text, reason in REAL_DEFECTS.items():
            if text in left.text:
                return f"the real package: {reason}"
    if pair == "CPU and CSX":
        if "Muon" in str(loop.get("optimizer")):
            return "Muon computes in bfloat16"
        if "Dropout" in str(loop.get("layers")) or "'set'" in str(loop.get("sparsity")):
            return "CSX draws its own random numbers in a step"
        if left.error is not None and found.line >= len(left.lines):
            # The pair of the real package says whether the refusal is right.
            return "the CPU refuses"
        return _reason_between_backends(loop, found, right)
    return None


def _reason_between_backends(loop: Loop, found: Difference, right: Answer) -> str | None:
    if right.error is not None and found.line >= len(right.lines):
        # The pair of the real package says whether the refusal is right.
        texts = "cannot be fetched", "has not been updated", "has no computational graph", "No input tensors found"
        is_ours = "LazyError" in right.error.get("kinds", []) or any(text in right.text for text in texts)
        return f"CSX refuses: {_kind(right)}" if is_ours else None
    if _grows_nothing(loop.get("sparsity")):
        return "CSX keeps one element of a mask where the count is 0, as sparse/masks.py says"
    if _is_of_rates(loop, found):
        return "CSX has other scheduled values than the CPU where a script reads or sets them: test_learning_rates.py"
    if found.where.endswith("_step_count"):
        return "a number of Python's, which CSX counts in the first step"
    if found.where.endswith("].scaler"):
        return "a dynamic scale has state on CSX only"
    return None


def _grows_nothing(sparsity: Any) -> bool:
    """Tell whether the first update of a mask, which was dense until then, drops no more than the level asks for."""
    if not isinstance(sparsity, dict) or "drop_fraction" not in sparsity or not sparsity["update"]["start"]:
        return False
    return bool(sparsity["drop_fraction"] <= sparsity["sparsity"])


def _is_of_rates(loop: Loop, found: Difference) -> bool:
    """Tell whether a difference is in how a scheduled setting reads, or was set by the script beside a schedule."""
    if found.kind in ("value", "type") and re.search(
        r"rate|\.(lr|weight_decay)\b|\._last_value|schedule state", found.where
    ):
        return True
    place = re.match(r"closure(\d+)\[(\d+)\]", found.where)
    if place:
        number, argument = map(int, place.groups())
        return "rate" in loop["closures"][number]["takes"][argument]
    return "rate" in loop.get("between", []) and "schedule" in loop


def _kind(answer: Answer) -> str:
    """Return the first words of an error, without its place in the script."""
    text = answer.error["text"] if answer.error else ""
    return " ".join(re.sub(r"^\S+:\d+: ", "", text).split()[:8])
