"""Walk every public callable of `cerebras.pytorch` beside the vendor's package, and list where ours answers otherwise.

    python -m tests.scripts.public.walk --reference /path/to/python [--only REGEX] [--kinds calls,cases] [--show 40]

The interpreter of `--reference` has the vendor's package and no part of ours; CI has none, so this is run by hand.
Both sides get the same probes, each in a process of its own (`walk_side.py`): what exists, names, signatures and
docstrings; wrong types for each parameter, without a backend, on CPU and on CSX; and the cases of `walk_cases.py`.
`--keep FILE` writes the reference's answers and `--kept FILE` reads them, so that it need not be run again.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

from tests.scripts.public import walk_cases

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
WRONG = ("None", "'x'", "-1", "1.5", "[]", "object()")
BACKENDS = {"none": "", "CPU": 'backend = cstorch.backend("CPU")\n', "CSX": 'backend = cstorch.backend("CSX")\n'}
# Modules whose names are public under the package's documented ones, so that each callable is walked once.
WALKED = (
    "", "amp", "backends", "distributed", "experimental", "metrics", "nn", "nn.functional", "optim",
    "optim.lr_scheduler", "optim.weight_decay_scheduler", "profiler", "sparse", "storage", "utils", "utils.benchmark",
    "utils.constant", "utils.data", "utils.pol", "utils.tensorboard", "utils.tracker", "core.modes",
)  # fmt: skip
VOLATILE = re.compile(r"0x[0-9a-f]+|/[\w./-]+|cstorch_compat[\w.]*|cerebras\.pytorch[\w.]*|lazytensor[\w.]*")
# Values that fit, by the name of a parameter: what the others get while one is wrong.
FITTING = {
    "params": "[nn.Parameter(torch.ones(2, 2))]",
    "optimizer": "adam()",
    "model": "Lin()",
    "module": "Lin()",
    "dataloader": "loader()",
    "input_fn": "lambda: []",
    "sample_spec": "torch.ones(2)",
    "name": "'m'",
    "scope_name": "'m'",
    "input": "torch.ones(2, 3)",
    "tensor": "torch.ones(2, 3)",
    "x": "torch.ones(2, 3)",
    "other": "torch.ones(3, 2)",
    "bias": "torch.ones(3)",
    "loss": "torch.ones(())",
    "obj": "{'a': torch.ones(2)}",
    "path": "'o.mdl'",
    "checkpoint_file": "'o.mdl'",
    "array": "np.ones(2, np.float32)",
    "size": "(2, 3)",
    "shape": "(2, 3)",
    "fill_value": "1.5",
    "value": "1.5",
    "data": "[1.0, 2.0]",
    "initial_learning_rate": "0.1",
    "end_learning_rate": "0.01",
    "learning_rate": "0.1",
    "learning_rates": "[0.1, 0.01]",
    "total_iters": "10",
    "milestones": "[2]",
    "base_lr": "0.01",
    "max_lr": "0.1",
    "step_size": "2",
    "step_size_up": "2",
    "T_max": "10",
    "T_0": "5",
    "gamma": "0.5",
    "val": "0.1",
    "vals": "[0.1, 0.01]",
    "initial_val": "0.1",
    "end_val": "0.01",
    "coefficient": "0.5",
    "schedulers": "[]",
    "schedules": "[]",
    "num_classes": "3",
    "k": "2",
    "dim": "1",
    "n": "1",
    "sparsity": "0.5",
    "level": "1",
    "fn": "lambda *a: 1",
    "function": "lambda *a: 1",
    "step_fn": "lambda *a: 1",
    "closure": "lambda *a: 1",
    "log_dir": "'logs'",
    "num_csx": "1",
    "batch_size": "8",
    "num_samples": "4",
    "data_source": "range(8)",
    "dataset": "range(8)",
    "p": "nn.Parameter(torch.ones(2, 2))",
}


def side(python: str, *arguments: str, given: object = None) -> Any:
    """What `walk_side.py` answers in an interpreter."""
    command = [python, str(HERE / "walk_side.py"), *arguments]
    run = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, cwd=ROOT)
    if run.returncode:
        sys.exit(run.stderr[-3000:])
    if "answer" in arguments:
        return dict(map(json.loads, run.stdout.splitlines()))
    return json.loads(run.stdout)


def calls(surface: dict) -> dict[str, str]:
    """Snippets that give each parameter of each callable each wrong value, and one that fits them all."""
    probes, seen = {}, set()
    for module in WALKED:
        path = f"cerebras.pytorch.{module}".rstrip(".")
        row = surface.get(path, {})
        for name, about in row.items() if isinstance(row, dict) else ():
            key = (name, str(about))
            if not isinstance(about, dict) or key in seen:
                continue
            seen.add(key)
            spelled = f"cstorch.{module}.{name}".replace("..", ".")
            probes |= _calls_of(spelled, about["parameters"])
    return probes


def _calls_of(spelled: str, parameters: list) -> dict[str, str]:
    needed = {p: FITTING.get(p, "None") for p, is_required in parameters if is_required}
    sets = [("fits", needed)]
    sets += [(f"{p}={wrong}", needed | {p: wrong}) for p, _ in parameters for wrong in WRONG]
    probes = {}
    for title, arguments in sets:
        text = ", ".join(f"{p}={v}" for p, v in arguments.items())
        for backend, line in BACKENDS.items():
            # Contexts differ in whether something may be called at all: one wrong value of each parameter tells that.
            if backend == "CPU" or title == "fits" or title.endswith("=None"):
                probes[f"{spelled}({title}) {backend}"] = f"{line}result = {spelled}({text})"
    return probes


def differences(mine: dict, theirs: dict) -> dict[str, list[tuple[str, str]]]:
    """By kind of difference: the probes that show it, and what both sides say."""
    kinds = collections.defaultdict(list)
    for name, want in theirs.items():
        got = mine[name]
        kind = _kind(got, want)
        if kind:
            kinds[kind].append((name, f"ours {_short(got)} | theirs {_short(want)}"))
    return kinds


def _kind(got: dict, want: dict) -> str:
    if "raises" in want:
        if "raises" not in got:
            return "1 returns where the original raises"
        if got["raises"] != want["raises"]:
            return "2 another class of error"
        return "" if _same_text(got["message"], want["message"]) else "4 another message"
    if "raises" in got:
        return "0 raises where the original returns"
    return "" if _same_text(json.dumps(got), json.dumps(want)) else "3 another result"


def _same_text(a: str, b: str) -> bool:
    a, b = (
        re.sub(r"0x[0-9a-f]+|/[\w./-]+|cstorch_compat[\w.]*|cerebras\.pytorch[\w.]*|lazytensor[\w.]*", "", t)
        for t in (a, b)
    )
    return a[:120] == b[:120]


def _short(reply: dict) -> str:
    text = f"{reply['raises']}: {reply['message']}" if "raises" in reply else json.dumps(reply["returns"])
    return " ".join(text.split())[:150]


def surface_differences(mine: dict, theirs: dict) -> dict[str, list[tuple[str, str]]]:
    """Names that are missing, and names, signatures and docstrings that are other ones."""
    kinds = collections.defaultdict(list)
    for module, row in theirs.items():
        ours = mine.get(module, {})
        if isinstance(row, str) or isinstance(ours, str):
            kinds["a module is missing"].append((module, str(ours)[:100]))
            continue
        for name, want in row.items():
            if isinstance(want, dict):
                _compare_callable(kinds, f"{module}.{name}", ours.get(name, "not listed"), want)
    return kinds


def _compare_callable(kinds: dict, name: str, got: object, want: dict) -> None:
    if not isinstance(got, dict):
        kinds["b name is missing"].append((name, str(got)[:120]))
        return
    if _plain(got["signature"]) != _plain(want["signature"]):
        kinds["c signature"].append((name, f"ours {got['signature']} | theirs {want['signature']}"))
    if got["name"] != want["name"]:
        kinds["d __name__"].append((name, f"{got['name']} | {want['name']}"))
    if want["doc"] and not got["doc"]:
        kinds["e docstring"].append((name, ""))
    for method, theirs in want.get("methods", {}).items():
        ours = got.get("methods", {}).get(method)
        if ours is None:
            kinds["f method is missing"].append((f"{name}.{method}", ""))
        elif _plain(ours["signature"]) != _plain(theirs["signature"]):
            kinds["g signature of a method"].append(
                (f"{name}.{method}", f"ours {ours['signature']} | theirs {theirs['signature']}")
            )


def _plain(signature: str | None) -> str:
    """Names and defaults alone; annotations are compared by `--annotations`."""
    return re.sub(r": [^=,()]*(\[[^=()]*\])?(?=[,)=]| =)| -> .*", "", signature or "").replace(" ", "")


def report(kinds: dict[str, list[tuple[str, str]]], total: int, show: int) -> None:
    """Print the differences, kind after kind."""
    for kind in sorted(kinds):
        print(f"{kind}: {len(kinds[kind])}")
        for name, text in kinds[kind][:show]:
            print(f"    {name}: {text}")
    print(f"differences: {sum(map(len, kinds.values()))} of {total}")


def main() -> None:
    """Run both sides and report."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--reference", help="an interpreter with the vendor's package")
    p.add_argument("--only", default="", help="a regular expression over the names of probes")
    p.add_argument("--kinds", default="surface,calls,cases")
    p.add_argument("--keep", help="write the reference's answers to this file")
    p.add_argument("--kept", help="read the reference's answers from this file")
    p.add_argument("--show", type=int, default=40)
    a = p.parse_args()
    kept = json.loads(pathlib.Path(a.kept).read_text()) if a.kept else {}
    needs_surface = "surface" in a.kinds or "calls" in a.kinds
    surface = kept.get("surface") or (side(a.reference, "inventory") if needs_surface else {})
    probes = {}
    if "calls" in a.kinds:
        probes |= calls(surface)
    if "cases" in a.kinds:
        probes |= walk_cases.probes(BACKENDS)
    probes = {name: text for name, text in probes.items() if re.search(a.only, name)}
    known = {n: r for n, r in kept.get("answers", {}).items() if n in probes}
    asked = {n: t for n, t in probes.items() if n not in known}
    theirs = known | (side(a.reference, "answer", given=asked) if asked and a.reference else {})
    if a.keep:
        pathlib.Path(a.keep).write_text(json.dumps({"surface": surface, "answers": kept.get("answers", {}) | theirs}))
    if "surface" in a.kinds:
        listed = {m: (list(r) if isinstance(r, dict) else []) for m, r in surface.items()}
        total = sum(map(len, listed.values()))
        report(surface_differences(side(sys.executable, "--shim", "inventory", given=listed), surface), total, a.show)
    if theirs:
        mine = side(sys.executable, "--shim", "answer", given={n: probes[n] for n in theirs})
        report(differences(mine, theirs), len(theirs), a.show)


if __name__ == "__main__":
    main()
