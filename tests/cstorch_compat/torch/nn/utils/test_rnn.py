"""Recurrent layers give each packed sequence the outputs, the last state and the gradients that it has alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.names.mirror_modules import get_mirror

torch, nn = get_mirror("torch"), get_mirror("torch.nn")
rnn = get_mirror("torch.nn.utils.rnn")

LAYERS = {
    "LSTM": lambda **options: nn.LSTM(3, 4, **options),
    "GRU": lambda **options: nn.GRU(3, 4, **options),
    "RNN with tanh": lambda **options: nn.RNN(3, 4, **options),
    "RNN with ReLU": lambda **options: nn.RNN(3, 4, nonlinearity="relu", **options),
}


def _gradients_of(layer, outputs, states):
    """Return the gradients of a sum of sines of outputs and last states, and set them back to None."""
    sum(torch.sin(t).sum() for t in [*outputs, *states]).backward()
    gradients = [p.grad.numpy().copy() for p in layer.parameters()]
    layer.zero_grad()
    return gradients


def _states(state):
    return list(state) if isinstance(state, tuple) else [state]


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    layers=st.integers(1, 2),
    is_both=st.booleans(),
    has_bias=st.booleans(),
    has_state=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_packed_sequences_give_the_results_of_each_sequence_alone(
    name, lengths, layers, is_both, has_bias, has_state, seed
):
    torch.manual_seed(seed)
    layer = LAYERS[name](num_layers=layers, bidirectional=is_both, bias=has_bias, dtype=torch.float64)
    sequences = [torch.randn(n, 3, dtype=torch.float64) for n in lengths]
    parts = 2 if name == "LSTM" else 1
    start = [torch.randn(layers * (1 + is_both), len(lengths), 4, dtype=torch.float64) for _ in range(parts)]

    def given_state(k=None):
        chosen = [s if k is None else s[:, k : k + 1] for s in start]
        return (tuple(chosen) if parts == 2 else chosen[0]) if has_state else None

    packed, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False), given_state())
    together = rnn.unpack_sequence(packed)
    alone = [layer(s.unsqueeze(1), given_state(k)) for k, s in enumerate(sequences)]
    for k, (y, last) in enumerate(alone):
        np.testing.assert_allclose(together[k].detach(), y.detach()[:, 0], atol=1e-12)
        for all_ends, end in zip(_states(state), _states(last), strict=True):
            np.testing.assert_allclose(all_ends.detach()[:, k], end.detach()[:, 0], atol=1e-12)
    ends = [s for _, last in alone for s in _states(last)]
    expected = _gradients_of(layer, [y for y, _ in alone], ends)
    for ours, theirs in zip(_gradients_of(layer, together, _states(state)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_gradients_are_finite_if_a_relu_state_would_overflow_after_the_end_of_its_sequence():
    layer = nn.RNN(1, 1, nonlinearity="relu", bias=False)
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(1000.0)
    packed = rnn.pack_sequence([torch.zeros(60, 1), torch.ones(2, 1)])
    short = rnn.unpack_sequence(layer(packed)[0])[1]
    short.sum().backward()
    assert short.flatten().tolist() == [1000.0, 1001000.0]
    assert [p.grad.item() for p in layer.parameters()] == [1002.0, 1000.0]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20), seed=st.integers(0, 1000))
def test_float32_kernels_keep_the_cell_state_of_an_lstm_after_the_end_of_a_sequence(lengths, seed):
    torch.manual_seed(seed)
    layer = nn.LSTM(3, 4)
    sequences = [torch.randn(n, 3) for n in lengths]
    _, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    for k, s in enumerate(sequences):
        for all_ends, end in zip(state, layer(s)[1], strict=True):
            np.testing.assert_allclose(all_ends.detach()[:, k], end.detach(), atol=1e-6)


def test_dropout_between_layers_draws_the_numbers_of_pytorch_for_packed_rows():
    """Recorded from PyTorch 2.13.0."""
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4, num_layers=3, bidirectional=True, dropout=0.5)
    packed = rnn.pack_sequence([torch.randn(n, 3) for n in (2, 5, 1, 3)], enforce_sorted=False)
    out, _ = layer(packed)
    sums = [
        *(-0.42506, -0.29888, -0.40479, -0.26673, -0.45591, -0.30031),
        *(-0.30973, -0.47194, -0.35222, -0.33405, -0.28826),
    ]
    assert out.data.sum(1).tolist() == pytest.approx(sums, abs=2e-5)
    assert torch.rand(1).item() == pytest.approx(0.5255444645881653)
