"""Threads that share a step stay on the cores that its own thread may use."""

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

STEPS = """
import os, sys
import numpy as np
from lazytensor import config
from tests.lazytensor.test_chain import X, W, steps
allowed = set(sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
os.sched_setaffinity(0, allowed)
with config.override(threads=1):
    alone = [v.copy() for v in steps().step([X, W])]
earlier = set(os.listdir("/proc/self/task"))  # those of BLAS began before the cores were chosen
with config.override(threads=3):
    program = steps()
    for _ in range(50):
        assert all(np.array_equal(a, b) for a, b in zip(alone, program.step([X, W]), strict=True))
        threads = set(os.listdir("/proc/self/task")) - earlier
        assert threads
        assert all(os.sched_getaffinity(int(thread)) <= allowed for thread in threads)
assert os.sched_getaffinity(0) == allowed
"""


@pytest.mark.process
@pytest.mark.parametrize("count", [1, 2])
def test_threads_of_a_step_stay_on_the_cores_of_its_thread(count):
    if count > len(os.sched_getaffinity(0)):
        pytest.skip("there are fewer cores")
    done = subprocess.run([sys.executable, "-c", STEPS, str(count)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
