"""Seconds of a processor and peak memory for a script's step: recording it, another batch, and each price of it.

python -m tests.bench.recording SCRIPT [args]
"""

import resource
import sys
import time

from cstorch_compat.planning.recording import record_script
from wse_sim import WSE2, plan


def timed(name, call):
    """Call, and print what it took."""
    before = time.process_time()
    outcome = call()
    seconds, megabytes = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:28} {seconds:6.2f} s {megabytes:6.0f} MB")
    return outcome


def main(path, *args):
    family = timed("record and compile", lambda: record_script(path, list(args)))
    program = family.program()
    print(f"batch {family.batch_size}, {len(program.instrs)} kernels, {program.work.flops:.3g} operations")
    timed("the first other batch", lambda: family.program(2 * family.batch_size + 8))
    timed("one more batch", lambda: family.program(3 * family.batch_size + 8))
    timed("plan, both modes", lambda: plan(program, WSE2))


if __name__ == "__main__":
    main(*sys.argv[1:])
