"""Modules against PyTorch 2.13.0: how they print, what they draw, what they give, and where gradients go.

`nn_modules.json` was recorded in PyTorch: after manual_seed(0) each module was built from `text` (the CRC of each entry
of its state dict is kept), called on sines of a counter, and the outputs, the gradients and the buffers afterwards were
projected on cosines of a counter.
"""

import json
import pathlib
import zlib

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import nn

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "nn_modules.json").read_text(encoding="utf-8"))
CLOSE = 2e-4
"""Projections sum up to some hundreds of float32 elements, each a few places off."""


def built(text: str) -> nn.Module:
    lt.manual_seed(0)
    return eval(text, {"torch": lt, **vars(nn)})


def flat(x) -> list:
    if isinstance(x, lt.Tensor):
        return [x]
    return [t for i in x for t in flat(i)] if isinstance(x, tuple | list) else []


def projected(x) -> float:
    array = np.asarray(x.detach().numpy(), np.float64).ravel()
    return float(array @ np.cos(1.7 * np.arange(array.size)))


def inputs(shapes) -> list:
    waves = [np.sin(np.arange(int(np.prod(s))) * (1.3 + k) + k).reshape(s) for k, s in enumerate(shapes)]
    return [lt.tensor(w.astype(np.float32)).requires_grad_() for w in waves]


every_module = pytest.mark.parametrize("entry", RECORDED, ids=lambda e: e["text"])


@every_module
def test_module_prints_and_draws_as_recorded(entry):
    module = built(entry["text"])
    assert repr(module) == entry["repr"]
    state = {k: [list(v.shape), zlib.crc32(v.numpy().tobytes())] for k, v in module.state_dict().items()}
    assert list(state) == list(entry["state"])
    assert state == entry["state"]


@pytest.mark.parametrize("entry", [e for e in RECORDED if e["shapes"]], ids=lambda e: e["text"])
def test_module_computes_as_recorded(entry):
    module, xs = built(entry["text"]), inputs(entry["shapes"])
    outputs = flat(module(*xs))
    assert [list(y.shape) for y in outputs] == [shape for shape, _ in entry["outputs"]]
    np.testing.assert_allclose([projected(y) for y in outputs], [v for _, v in entry["outputs"]], CLOSE, CLOSE)
    weights = [lt.tensor(np.cos(np.arange(y.numel())).reshape(y.shape).astype(np.float32)) for y in outputs]
    sum((y * w).sum() for y, w in zip(outputs, weights, strict=True)).backward()
    got = [t.grad for t in (*xs, *module.parameters())]
    for g, want in zip(got, entry["grads"], strict=True):
        assert (0.0 if g is None else projected(g)) == pytest.approx(want or 0.0, rel=CLOSE, abs=CLOSE)
    after = {k: projected(b.float()) for k, b in module.named_buffers()}
    assert after == pytest.approx(entry["after"], rel=CLOSE, abs=CLOSE)


# -- masks of the transformer ------------------------------------------------------------------------------------------

X = (5, 2, 8)
ENCODER, DECODER = nn.TransformerEncoderLayer(8, 2, 16, 0.0), nn.TransformerDecoderLayer(8, 2, 16, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nn.MultiheadAttention(8, 2)(x, x, x, is_causal=True),
        lambda x: ENCODER(x, is_causal=True),
        lambda x: nn.TransformerEncoder(ENCODER, 1)(x, is_causal=True),
        lambda x: DECODER(x, x, tgt_is_causal=True),
        lambda x: DECODER(x, x, memory_is_causal=True),
        lambda x: nn.TransformerDecoder(DECODER, 1)(x, x, tgt_is_causal=True),
    ],
)
def test_a_causal_hint_without_a_mask_is_refused(call):
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        call(inputs([X])[0])


@pytest.mark.parametrize("layer", [ENCODER, nn.TransformerEncoder(ENCODER, 2)], ids=["layer", "stack"])
def test_a_causal_mask_hides_what_comes_later(layer):
    x = inputs([X])[0].detach()
    later = x.clone()
    later[3:] = 0.5
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    whole, cut = (layer(t, mask, is_causal=True).detach().numpy() for t in (x, later))
    np.testing.assert_array_equal(whole[:3], cut[:3])
    assert np.abs(whole[3:] - cut[3:]).max() > 0.01


def test_padded_keys_do_not_count():
    x, memory = (t.detach() for t in inputs([X, (3, 2, 8)]))
    other = memory.clone()
    other[2] = 0.5
    padding = lt.tensor([[False, False, True]] * 2)
    plain, padded = (
        [DECODER(x, m, memory_key_padding_mask=p).detach().numpy() for m in (memory, other)] for p in (None, padding)
    )
    np.testing.assert_array_equal(*padded)
    assert np.abs(plain[0] - plain[1]).max() > 0.01
