"""Threads that share a step are moved among the cores that its own thread may use, and nowhere else."""

import os
import subprocess
import sys

import pytest

from lazytensor import config
from lazytensor.runtime import chain
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.skipif(chain.functions() is None, reason="threads of this system wait in another way"),
    pytest.mark.skipif(not config.current().jit, reason="nothing is machine code here"),
]

# Nobody waits for a look: each wait of the thread that runs a step moves one that has a part in hand to its core, and
# each new work sends all others away from there.
MOVED = """
import os, sys, time
import numpy as np
from lazytensor import config
from lazytensor.native import sharing
sharing.SPINS, sharing.LOOKS, sharing.PATIENCE_NS, sharing.SHORT_NS = 0, 1, 0, 0
from lazytensor.runtime import chain
from tests.lazytensor.test_chain import X, W, steps
allowed = set(sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
os.sched_setaffinity(0, allowed)
with config.override(threads=1):
    alone = [v.copy() for v in steps().step([X, W])]
program, seen, ends = None, set(), time.monotonic() + 60
with config.override(threads=3):
    program = steps()
    while len(seen) < 2 and time.monotonic() < ends:
        assert all(np.array_equal(a, b) for a, b in zip(alone, program.step([X, W]), strict=True))
        crew = chain._crews[3]
        numbers = [int(n) for n in crew.places[1:, 1]]
        if not all(numbers):
            continue  # one has not begun yet
        assert sorted(numbers) == sorted(t.native_id for t in crew._threads)
        assert not crew.places[:, 2].any() and os.sched_getaffinity(0) == allowed
        away = int(crew._words[sharing.AWAY])
        left = allowed - {away - 1} or allowed
        for number in numbers:
            cores = os.sched_getaffinity(number)
            assert cores and cores <= allowed
            if away:
                assert cores == left
        seen.add(bool(away))
print(sorted(seen))
"""


@pytest.mark.process
@pytest.mark.parametrize("count", [1, 2])
def test_who_shares_a_step_stays_on_the_cores_of_its_thread(count):
    if count > len(os.sched_getaffinity(0)):
        pytest.skip("there are fewer cores")
    done = subprocess.run([sys.executable, "-c", MOVED, str(count)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[False, True]\n"), done.stderr
