"""The engine behind the fabric: what it chooses, what it holds, and when a kept binary is stale."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wse_sim.fabric
from wse_sim.fabric import EAST, RAMP, WEST, Builder, Memory, Mesh, Received, Sent, compiled, simulate
from wse_sim.fabric.assemble import assemble_mesh
from wse_sim.machine import WSE2

GIB = 1 << 30


def working(width: int, busy: int, cycles: int) -> Mesh:
    """A row of which the first `busy` cores compute for so many cycles; the others do nothing."""
    builder = Builder("works", 1)
    builder.fmac(Memory(0, 0), Memory(0, 0), 1.0, 1.0, cycles)
    mesh = Mesh(WSE2, width, 1)
    mesh.run(builder.build(), slice(0, busy), 0)
    return mesh


@pytest.mark.slow
def test_auto_gives_the_counters_of_the_others_across_its_changes():
    mesh = working(100, 90, 5000)
    first = simulate(mesh, "list")
    for engine in ("auto", "scan"):
        done = simulate(mesh, engine)
        for name, counts in done.counters.items():
            np.testing.assert_array_equal(counts, first.counters[name], err_msg=name)
        assert done.cycles == first.cycles


@pytest.mark.slow
def test_a_wafer_of_the_largest_cores_fits_in_8_gib():
    """All colours, all microthreads, and 4 KiB of memory for each core; a full 48 KiB on every core would not."""
    mesh = Mesh(WSE2, 4, 1)
    sender, taker = Builder("sends", 1024), Builder("takes", 1024)
    for colour in range(WSE2.colours):
        mesh.route(colour, [0, 2], 0, RAMP, [EAST])
        mesh.route(colour, [1, 3], 0, WEST, [RAMP])
        sender.move(Sent(colour), Memory(0), 1, asynchronous=True)
        taker.move(Memory(0), Received(colour), 1, asynchronous=True)
    mesh.run(sender.build(), [0, 2], 0)
    mesh.run(taker.build(), [1, 3], 0)
    state, _ = assemble_mesh(mesh)
    for_each = (state.cores.nbytes + state.memory.nbytes) / 4
    assert state.size("threads") == 1 + WSE2.microthreads
    assert for_each * WSE2.width * WSE2.height < 8 * GIB
    assert simulate(mesh).expect_finished().received == dict.fromkeys(range(WSE2.colours), 2)


def test_a_kept_binary_depends_on_every_file_that_is_compiled_into_it():
    folder = Path(wse_sim.fabric.__file__).parent
    found = {
        f"fabric/{path.stem}"
        for path in folder.glob("*.py")
        if re.search(r"^(from wse_sim.fabric.compiled|import numba|from numba)", path.read_text(encoding="utf-8"), re.M)
    }
    assert found | {"isa/record"} == set(compiled.ENGINE_FILES)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 120])
def test_the_deepest_and_the_shallowest_queues_keep_order(depth):
    mesh = Mesh(replace(WSE2, queue_depth=depth), 3, 1)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [EAST])
    mesh.route(0, 2, 0, WEST, [RAMP])
    sender, taker = Builder("sends", 1000), Builder("takes", 1000)
    sender.move(Sent(0), Memory(0), 1000)
    taker.move(Memory(0, 0), 0.0, 900)
    taker.move(Memory(0), Received(0), 1000)
    mesh.run(sender.build(), 0, 0)
    mesh.run(taker.build(), 2, 0)
    mesh.load(np.arange(1000), 0, 0)
    np.testing.assert_array_equal(simulate(mesh).expect_finished().memory[0, 2], np.arange(1000))
