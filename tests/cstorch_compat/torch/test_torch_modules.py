"""LBFGS, packed sequences, derivatives as tensors, a hub without a network: values recorded from PyTorch 2.13.0."""

import math

import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import DataError, OptionMissing

torch, nn = get_mirror("torch"), get_mirror("torch.nn")
rnn, AF = get_mirror("torch.nn.utils.rnn"), get_mirror("torch.autograd.functional")


@pytest.mark.parametrize(
    ("line_search", "losses", "place", "calls"),
    [
        (None, [24.2, 23.699485, 23.341302], [-1.195846, 1.003864], 30),
        ("strong_wolfe", [24.2, 2.859759, 0.46414], [0.916071, 0.834247], 37),
    ],
)
def test_lbfgs_goes_down_rosenbrocks_valley_as_pytorchs(line_search, losses, place, calls):
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    rate = 1 if line_search else 0.001
    optimizer = torch.optim.LBFGS([x], lr=rate, max_iter=10, line_search_fn=line_search)
    called = []

    def closure():
        called.append(1)
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    assert [float(optimizer.step(closure)) for _ in range(3)] == pytest.approx(losses, abs=1e-5)
    assert x.tolist() == pytest.approx(place, abs=1e-5) and len(called) == calls
    with pytest.raises(RuntimeError, match="needs a closure"):
        optimizer.step()


def test_recurrent_layers_take_packed_sequences():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 2, num_layers=2, bidirectional=True)
    packed = rnn.pack_sequence([torch.randn(n, 3) for n in (2, 4, 1)], enforce_sorted=False)
    out, (h, _) = layer(packed)
    padded, lengths = rnn.pad_packed_sequence(out, batch_first=True)
    assert (packed.batch_sizes.tolist(), packed.sorted_indices.tolist(), lengths.tolist()) == (
        [3, 2, 1, 1],
        [1, 0, 2],
        [2, 4, 1],
    )
    assert padded.sum((1, 2)).tolist() == pytest.approx([-0.122588, -0.593216, -0.189617], abs=1e-5)
    assert h.sum(-1).reshape(-1).tolist()[:4] == pytest.approx([-0.183457, 0.065774, 0.122001, 0.380501], abs=1e-5)
    padded.sum().backward()
    assert layer.weight_ih_l0.grad.sum(1).tolist()[:3] == pytest.approx([0.632743, 0.061068, -0.067434], abs=1e-5)
    assert [tuple(s.shape) for s in rnn.unpack_sequence(packed)] == [(2, 3), (4, 3), (1, 3)]


def test_sequences_out_of_order_are_refused():
    with pytest.raises(RuntimeError, match="sorted in decreasing order"):
        rnn.pack_padded_sequence(torch.zeros(3, 2, 1), [1, 3])
    assert rnn.pad_sequence([torch.ones(1), torch.ones(2)], True, -1.0).tolist() == [[1.0, -1.0], [1.0, 1.0]]


def test_derivatives_as_tensors():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    second = AF.hessian(lambda x, y: (x * y).sum() + x.pow(3).sum(), (a, b))
    assert second[0][0].tolist() == [[6.0, 0.0], [0.0, 12.0]] and second[0][1].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert second[1][1].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    first = AF.jacobian(lambda x: torch.stack([x[0] * x[1], x[1] ** 2, x.sum()]), a)
    assert first.tolist() == [[2.0, 1.0], [0.0, 4.0], [1.0, 1.0]]
    for product in (AF.jvp, AF.vjp):
        assert [t.tolist() for t in product(lambda x: x**2, a, b)] == [[1.0, 4.0], [6.0, 16.0]]
    for product in (AF.hvp, AF.vhp):
        assert [t.tolist() for t in product(lambda x: (x**3).sum(), a, b)] == [9.0, [18.0, 48.0]]


def test_the_hub_reads_folders_and_never_downloads(tmp_path, monkeypatch):
    hub = get_mirror("torch.hub")
    (tmp_path / "hubconf.py").write_text("def double(x):\n    'Twice.'\n    return 2 * x\n")
    assert hub.load(str(tmp_path), "double", 4, source="local") == 8
    assert (hub.list(str(tmp_path)), hub.help(str(tmp_path), "double")) == (["double"], "Twice.")
    with pytest.raises(DataError, match="cannot be downloaded"):
        hub.load("user/repository", "model")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(DataError, match="not in the cache"):
        hub.load_state_dict_from_url("https://example.org/weights.pth")
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    torch.save({"w": torch.ones(1)}, tmp_path / "hub" / "checkpoints" / "weights.pth")
    assert hub.load_state_dict_from_url("https://example.org/weights.pth")["w"].tolist() == [1.0]


def test_what_jit_and_compile_give_runs_as_it_stands():
    jit = get_mirror("torch.jit")

    @jit.script
    def f(x):
        return x * 2 if x.sum() > 0 else -x

    assert (f(torch.ones(1)).item(), f(-torch.ones(1)).item(), jit.is_scripting()) == (2.0, 1.0, False)
    layer = nn.Linear(1, 1)
    assert jit.trace(layer, torch.ones(1)) is layer and math.isfinite(torch.compile(layer)(torch.ones(1)).item())
    with pytest.raises(OptionMissing, match="TorchScript files"):
        jit.save(layer, "model.pt")
