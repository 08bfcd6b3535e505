"""Stages of a compiled step: what waits in them, and how long."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.nn import functional as F
from lazytensor.optim import SGD
from wse_sim.planner.dataflow import wire
from wse_sim.planner.layers import fold
from wse_sim.planner.routing import stage_flows
from wse_sim.planner.stages import computed_again, sample_bytes, stages_of


def deep(layers, width, activation):
    """The dataflow of a training step of equal layers."""
    with abstract_step.mode():
        model = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(width, width), activation())))
        optimizer = SGD(model.parameters(), lr=0.1)

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return wire(abstract_step.record(step, [abstract_step.tensor((8, width)) for _ in range(2)]).program())


@settings(deadline=None, max_examples=4)
@given(st.integers(4, 7), st.sampled_from((nn.ReLU, nn.Tanh)))
def test_each_layer_holds_its_activation_for_two_stages_less_than_the_one_before(layers, activation):
    """A sample comes back to each layer two stages sooner; that a kernel writes over what it reads changes nothing."""
    dataflow = deep(layers, 64, activation)
    folded = fold(dataflow)
    stages = stages_of(dataflow, folded, computed_again(dataflow, folded))
    waiting = [stage.waiting_bytes for stage in stages]
    vector = 64 * 4
    # Of such a layer the result alone is kept. The first also keeps the batch, and the last hands nothing on.
    steps = {a - b for a, b in pairwise(waiting[1:-1])}
    assert steps == {2 * vector}
    assert waiting[-2] >= 2 * vector


@settings(deadline=None, max_examples=4)
@given(st.integers(2, 5), st.sampled_from((nn.ReLU, nn.Tanh, nn.GELU)))
def test_what_is_computed_again_is_made_of_what_is_still_there(layers, activation):
    dataflow = deep(layers, 64, activation)
    again = computed_again(dataflow, fold(dataflow))
    backward = {
        o for i in dataflow.kernels if dataflow.program.instrs[i].direction != "forward" for o in dataflow.operands[i]
    }
    for version in again:
        assert sample_bytes(dataflow, version.buffer)
        for operand in dataflow.operands[version.source]:
            assert operand in backward or operand in again or operand.buffer not in dataflow.per_sample


def test_a_loss_lies_with_its_logits_though_their_weight_is_that_of_the_first_layer():
    """The labels come of the batch, and are made ready behind all layers: that moves no logits there."""
    words, width, length = 512, 16, 8
    with abstract_step.mode():
        tokens, line = nn.Embedding(words, width), nn.Sequential(*(nn.Linear(width, width) for _ in range(3)))
        optimizer = SGD([*tokens.parameters(), *line.parameters()], lr=0.1)

    def step(ids, labels):
        logits = line(tokens(ids)) @ tokens.weight.T
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten().long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batch = [abstract_step.tensor((8, length), lt.int32) for _ in range(2)]
    dataflow = wire(abstract_step.record(step, batch).program())
    folded = fold(dataflow)
    stages = stages_of(dataflow, folded, computed_again(dataflow, folded))
    assert len(stages) == 4
    assert max(stage_flows(dataflow, stages).values()) < length * words


@settings(deadline=None, max_examples=6)
@given(st.integers(2, 5), st.booleans())
def test_averages_of_weights_lie_with_them_and_tell_nothing_of_the_order(layers, is_scaled):
    """A teacher's weights are averaged before all else, the last first, by what may be made of all of them."""
    widths = range(8, 9 + layers)
    with abstract_step.mode():
        student, teacher = (
            nn.Sequential(*(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.Tanh())))
            for _ in range(2)
        )
        optimizer = SGD(student.parameters(), lr=0.1)
    pairs = [*zip(teacher.parameters(), student.parameters(), strict=True)][::-1]

    def step(x):
        with lt.no_grad():
            share = lt.tanh(sum(own.square().sum() for _, own in pairs)) if is_scaled else 0.1
            for average, own in pairs:
                average.copy_(average + (own - average) * share)
            # Twice, so that averages are kernels of their own.
            aim = teacher(x) - teacher(-x).mean(0)
        loss = F.mse_loss(student(x), aim)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    dataflow = wire(abstract_step.record(step, [abstract_step.tensor((8, 8))]).program())
    folded = [layer for layer in fold(dataflow) if layer.parameters]
    shapes = [{dataflow.type(b).shape for b in layer.parameters} for layer in folded]
    assert shapes == [{(b, a), (b,)} for a, b in pairwise(widths)]
    assert all(layer.has_product and len(layer.parameters) == 4 for layer in folded)


@settings(deadline=None, max_examples=3)
@given(st.integers(1, 3), st.integers(1, 2))
def test_attention_comes_behind_what_it_reads_however_often_samples_pass_its_weights(blocks, views):
    width, heads = 16, 2
    with abstract_step.mode():
        lines = [nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(4)]) for _ in range(blocks)]
        optimizer = SGD([w for line in lines for w in line.parameters()], lr=0.1)

    def net(x):
        for to_q, to_k, to_v, out in lines:
            q, k, v = (to(x).unflatten(-1, (heads, -1)).transpose(1, 2) for to in (to_q, to_k, to_v))
            x = out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x

    def step(*x):
        loss = sum(net(view).square().mean() for view in x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batch = [abstract_step.tensor((8, 4 + n, width)) for n in range(views)]
    folded = [layer for layer in fold(wire(abstract_step.record(step, batch).program())) if layer.has_product]
    assert [layer.is_attention for layer in folded] == [*[False] * 3, *[True] * views, False] * blocks
