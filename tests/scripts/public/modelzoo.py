"""The vendor's Model Zoo on top of the shim: imports, small nets, and its Trainer, beside what the real stack gave.

    LT_PUBLIC=DIR python -m tests.scripts.public.modelzoo [imports nets trainer] [--libraries DIR] [--reference PY]

DIR has the repository as `modelzoo`; the packages that it wants (pydantic 2.8, PyYAML, tqdm, tabulate, pandas,
filelock, termcolor, slack_sdk, transformers, datasets) are beside lazywafer or in the folder of `--libraries`.
Nothing is downloaded. The figures of modelzoo.json were recorded from cerebras_pytorch 2.10.0; `--reference` names an
interpreter that has it, and keeps what it gives.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
RECORDED = HERE / "modelzoo.json"
PHASES = ("train", "resume", "eval")
TOLERANCE = 1e-5
"""Of losses and norms of gradients, relative; the Trainer's losses are compared as printed."""
IMPORTS = """
import importlib, pathlib, sys, warnings
warnings.simplefilter("ignore")
root = pathlib.Path(sys.argv[1])
for path in sorted((root / "cerebras/modelzoo/models").rglob("*.py")):
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    try:
        importlib.import_module(name)
        print("IMPORT", name)
    except BaseException as e:
        print("MISSING", name, type(e).__name__, str(e).partition(chr(10))[0])
"""


class Stack:
    """One of the two stacks: how to run a program of Python on it."""

    def __init__(self, source: pathlib.Path, libraries: str, reference: str):
        paths = [str(source), *([libraries] if libraries else [])]
        self.command = [reference] if reference else [sys.executable, "-m", "cstorch_compat", "run"]
        self.env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths if reference else [str(ROOT), *paths]),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def lines(self, folder: str, *args: str) -> list[str]:
        """What a program prints; its errors go through."""
        done = subprocess.run(
            [*self.command, *args], cwd=folder, env=self.env, stdout=subprocess.PIPE, text=True, timeout=1800
        )
        return done.stdout.splitlines()


def imports(stack: Stack, folder: str, source: pathlib.Path) -> bool:
    """Import every module of the models; print what is missing."""
    program = pathlib.Path(folder) / "imports.py"
    program.write_text(IMPORTS)
    lines = [x for x in stack.lines(folder, str(program), str(source)) if x.startswith(("IMPORT ", "MISSING "))]
    missing = [x for x in lines if x.startswith("MISSING")]
    print(*missing, f"imports: {len(lines) - len(missing)} of {len(lines)} modules of models", sep="\n")
    return bool(lines) and not missing


def nets(stack: Stack, folder: str, recorded: dict[str, list[float]]) -> dict[str, list[float]]:
    """Run every net once; print which differ from the recorded figures."""
    given: dict[str, list[float]] = {}
    for line in stack.lines(folder, str(HERE / "modelzoo_nets.py")):
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if "error" in row:
            print(f"{row['net']}: {row['error'].partition(chr(10))[0]}")
        else:
            given[row["net"]] = [row["loss"], row["norm"], row["gradients"]]
    for name in [n for n in given if n in recorded and not close(given[n], recorded[n])]:
        print(f"{name}: {given[name]}, recorded {recorded[name]}")
    equal = sum(n in given and close(given[n], recorded[n]) for n in recorded)
    print(f"nets: {equal} of {len(recorded)} have the loss and the gradients of the real stack")
    return given


def close(ours: list[float], theirs: list[float]) -> bool:
    """Whether figures are equal within the tolerance."""
    return all(abs(a - b) <= TOLERANCE * max(1e-3, abs(b)) for a, b in zip(ours, theirs, strict=True))


def trainer(stack: Stack, folder: str, recorded: dict[str, list[str]], device: str) -> dict[str, list[str]]:
    """Train, resume and evaluate by the Trainer; print how many losses are the recorded ones."""
    given = {}
    for name in ("fc_mnist", "gpt2"):
        for phase in PHASES:
            place = str(pathlib.Path(folder) / f"{name}_{device}")
            printed = stack.lines(folder, str(HERE / "modelzoo_trainer.py"), name, device, phase, place)
            lines = [x for x in printed if x.startswith(("LOSS ", "METRIC "))]
            given[f"{name} {phase}"] = lines
            losses, wanted = (
                [x for x in part if x.startswith("LOSS")] for part in (lines, recorded.get(f"{name} {phase}", []))
            )
            equal = sum(a == b for a, b in zip(losses, wanted, strict=False))
            pairs = [(float(a.split()[-1]), float(b.split()[-1])) for a, b in zip(losses, wanted, strict=False)]
            apart = max((abs(a - b) / abs(b) for a, b in pairs), default=float("nan"))
            print(
                f"{name} {phase} on {device}: {len(losses)} losses, {equal} of {len(wanted)} as recorded, the others "
                f"within {apart:.1e}"
            )
    return given


def main() -> int:
    """Run the parts that were asked for. Returns the exit status: 1 if the repository is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["imports", "nets", "trainer"])
    parser.add_argument("--libraries", default="", help="a folder of packages, for both sides")
    parser.add_argument("--reference", default="", help="an interpreter with cerebras_pytorch 2.10.0: records")
    options = parser.parse_args()
    source = pathlib.Path(os.environ.get("LT_PUBLIC", "")) / "modelzoo" / "src"
    if "LT_PUBLIC" not in os.environ or not source.is_dir():
        print("LT_PUBLIC names no folder with the repository modelzoo")
        return 1
    stack, recorded = Stack(source, options.libraries, options.reference), json.loads(RECORDED.read_text())
    with tempfile.TemporaryDirectory() as folder:
        if "imports" in options.parts:
            imports(stack, folder, source)
        if "nets" in options.parts:
            given_nets = nets(stack, folder, recorded["nets"])
            recorded["nets"] |= given_nets if options.reference else {}
        if "trainer" in options.parts:
            # The real stack compiles for the wafer on a cluster alone, so CSX has no recorded losses of its own, but
            # a CPU can be told to compute in CSX's bfloat16; then even the data of fc_mnist are other draws.
            for device in ("CPU", "CPU-mixed") if options.reference else ("CPU", "CPU-mixed", "CSX"):
                key = "trainer" if device == "CPU" else "trainer_mixed"
                given = trainer(stack, folder, recorded.setdefault(key, {}), device)
                recorded[key] |= given if options.reference else {}
    if options.reference:
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
