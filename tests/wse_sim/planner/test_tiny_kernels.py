"""Steps of very many tiny kernels: few prices, whatever their number."""

from dataclasses import replace

import lazytensor as lt
from lazytensor.core import abstract_step
from lazytensor.optim import Adam
from wse_sim.machine import WSE2
from wse_sim.planner import prices
from wse_sim.planner.modes import plan

MACHINE = replace(WSE2, width=128, height=128)


def parameters_in_one_product(count):
    """The training step of parameters of eight elements that are one operand, with Adam."""
    with abstract_step.mode():
        parameters = [lt.nn.Parameter(lt.ones(8)) for _ in range(count)]
        optimizer = Adam(parameters, lr=0.1)

    def step(x):
        loss = (x @ lt.cat(parameters).unsqueeze(1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return abstract_step.record(step, [abstract_step.tensor((4, 8 * count))])


def sizes_priced(monkeypatch, step):
    """Instructions and rectangles of all phase programs that are priced when a step is planned in both modes."""
    sizes = []

    def phase_program(instr, dataflow, rect, machine, own=prices.phase_program):
        sizes.append((instr, rect))
        return own(instr, dataflow, rect, machine)

    with monkeypatch.context() as patch:
        patch.setattr(prices, "phase_program", phase_program)
        patch.setattr(prices, "_kept_prices", {})
        report = plan(step, MACHINE).report
    assert report.pipelined.fits and report.streaming.fits
    return sizes


def test_more_parameters_alike_do_not_ask_for_more_prices(monkeypatch):
    few, many = (sizes_priced(monkeypatch, parameters_in_one_product(n)) for n in (4, 24))
    # A product of six times the extent may have more extents on the way to the whole mesh.
    assert len(many) < 1.5 * len(few)


def test_no_side_is_longer_than_a_kernel_has_elements(monkeypatch):
    for instr, rect in sizes_priced(monkeypatch, parameters_in_one_product(2)):
        # The batch of four rows of sixteen elements is the largest tensor.
        assert max(rect.width, rect.height) <= 64, instr.label
