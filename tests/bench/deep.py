"""Seconds of a processor that a plan takes for 96 equal layers and for 12, in processes of their own, turn by turn.

python -m tests.bench.deep [ROUNDS] [DEPTH SHALLOW]

`script` is the script's own code, which runs once for its own batch and once for another. `record`
compiles what it recorded, for both batches; `plan` is both modes of the recorded step. Least of all rounds.
"""

import json
import subprocess
import sys
import time

from cstorch_compat.planning.recording import record_script
from cstorch_compat.run import script
from wse_sim import WSE2, plan

PATH = "notebooks/scripts/published/gpt2.py"
PARTS = ("script", "record", "plan", "total")


def measured(depth):
    """Seconds of each part for so many layers, in this process."""
    spent = {"script": 0.0}
    run = script.run_as_main

    def timed(*args):
        before = time.process_time()
        try:
            run(*args)
        finally:
            spent["script"] += time.process_time() - before

    script.run_as_main = timed
    start = time.process_time()
    family = record_script(PATH, ["--layers", str(depth)])
    family.program(2 * family.batch_size)
    recorded = time.process_time()
    plan(family, WSE2)
    end = time.process_time()
    return spent | {"record": recorded - start - spent["script"], "plan": end - recorded, "total": end - start}


def asked(depth):
    """The same of a process that has done nothing else."""
    answer = subprocess.run([sys.executable, "-m", __spec__.name, "--layers", depth], capture_output=True, check=True)
    return json.loads(answer.stdout)


def main(rounds="3", deep="96", shallow="12"):
    seconds = {depth: [] for depth in (shallow, deep)}
    for _ in range(int(rounds)):
        for depth, own in seconds.items():
            own.append(asked(depth))
    least = {depth: {part: min(one[part] for one in own) for part in PARTS} for depth, own in seconds.items()}
    print(f"{'layers':10}" + "".join(f"{part:>10}" for part in PARTS))
    for depth, parts in least.items():
        print(f"{depth:10}" + "".join(f"{parts[part]:9.2f}s" for part in PARTS))
    print(f"{'ratio':10}" + "".join(f"{least[deep][part] / least[shallow][part]:10.2f}" for part in PARTS))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--layers"]:
        print(json.dumps(measured(int(sys.argv[2]))))
    else:
        main(*sys.argv[1:])
