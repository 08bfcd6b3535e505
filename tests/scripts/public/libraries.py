"""Libraries of others on top of the shim: each program runs unchanged and prints PyTorch's numbers.

    python -m tests.scripts.public.libraries [--libraries DIR] [--only NAME] [--torch-python PATH] [--record]

DIR is a folder with the libraries (pip install --target DIR --no-deps ...), where they are not installed beside
lazywafer; a program whose library is nowhere is skipped. Nothing is downloaded. With --torch-python the same programs
run under PyTorch as well, and --record keeps what they print there. The figures of libraries.json are from PyTorch
2.13.0 with transformers 4.49.0 (tokenizers 0.21.4, huggingface_hub 0.36.2), einops 0.8.2, torchmetrics 1.9.0 and
safetensors 0.8.0. Last measured: all seven programs equal, of the 80 losses of transformers' GPT-2, BERT, Llama and ViT
none further away than the last printed digit (1e-6), the ten tokens that Llama writes the same.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAMS = HERE / "library_programs"
RECORDED = HERE / "libraries.json"
NEEDS = {
    "gpt2": "transformers",
    "bert": "transformers",
    "llama": "transformers",
    "vit": "transformers",
    "rearrange": "einops",
    "metrics": "torchmetrics",
    "tensors": "safetensors",
}
TOLERANCE = 1e-4
"""Relative, or absolute for numbers below one."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")


@dataclass(frozen=True)
class Outcome:
    """What a program printed, and why it stopped if it did."""

    lines: list[str]
    stop: str = ""


def run(command: list[str], name: str, libraries: str) -> Outcome:
    """Run a program with an interpreter; `libraries` is a folder or nothing."""
    path = os.pathsep.join([str(ROOT), *([libraries] if libraries else [])])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*command, str(PROGRAMS / f"{name}.py")], env=env, capture_output=True, text=True, timeout=900
    )
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    return Outcome(done.stdout.splitlines(), "" if done.returncode == 0 else (errors or ["no message"])[-1])


def difference(ours: list[str], theirs: list[str]) -> str:
    """Where two outputs part, "" if they are equal within the tolerance."""
    if len(ours) != len(theirs):
        return f"{len(ours)} lines instead of {len(theirs)}"
    for k, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
        values, others = ([float(n) for n in NUMBER.findall(line)] for line in (mine, other))
        is_near = all(abs(a - b) <= TOLERANCE * max(1, abs(b)) for a, b in zip(values, others, strict=False))
        if NUMBER.sub("#", mine) != NUMBER.sub("#", other) or not is_near:
            return f"line {k}: {mine!r} instead of {other!r}"
    return ""


def main() -> int:
    """Run the programs and print a line for each; returns how many stop or differ."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--libraries", default="", metavar="DIR")
    options.add_argument("--only", choices=NEEDS)
    options.add_argument("--torch-python", metavar="PATH")
    options.add_argument("--record", action="store_true")
    chosen = options.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    failures = 0
    for name in [chosen.only] if chosen.only else NEEDS:
        told = _row(name, chosen, recorded)
        failures += not told.startswith(("equal", "skipped"))
        print(f"{name:10} {told}", flush=True)
    if chosen.record:
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
    return failures


def _row(name: str, chosen: argparse.Namespace, recorded: dict[str, list[str]]) -> str:
    library = NEEDS[name]
    if not (pathlib.Path(chosen.libraries) / library).is_dir() and importlib.util.find_spec(library) is None:
        return f"skipped: {library} is not installed"
    if chosen.torch_python:
        theirs = run([chosen.torch_python], name, chosen.libraries)
        if theirs.stop:
            return f"PyTorch stops: {theirs.stop}"
        if chosen.record:
            recorded[name] = theirs.lines
        expected = theirs.lines
    else:
        expected = recorded[name]
    ours = run([sys.executable, "-m", "cstorch_compat", "run"], name, chosen.libraries)
    if ours.stop:
        return f"stops after {len(ours.lines)} lines: {ours.stop}"
    return difference(ours.lines, expected) or f"equal: {len(expected)} lines"


if __name__ == "__main__":
    sys.exit(main())
