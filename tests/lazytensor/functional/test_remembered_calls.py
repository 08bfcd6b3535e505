"""Calls that come again give the bits of the first call, for all functions whose calls are remembered."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.autograd.function import grad
from lazytensor.errors import LazyError
from lazytensor.functional import remembered_calls
from lazytensor.functional.remembered_calls import TYPE_DETERMINED

F = lt.nn.functional
TURNS = 5
"""The first two turns learn, the others replay."""


def _conv(name, rank):
    return lambda t: getattr(F, name)(t["images"](rank), t["filters"](rank), padding=1)


CASES = {
    **{f"__{o}__": (lambda t, o=o: getattr(t["x"], f"__{o}__")(t["y"])) for o in "add sub mul truediv pow".split()},
    **{f"__r{o}__": (lambda t, o=o: getattr(t["x"], f"__r{o}__")(1.5)) for o in "add sub mul truediv pow".split()},
    "__neg__": lambda t: -t["x"],
    "__matmul__": lambda t: t["x"] @ t["square"],
    **{
        name: (lambda t, name=name: getattr(lt, name)(t["x"], t["y"]))
        for name in """add sub subtract mul multiply div divide true_divide pow eq ne lt le gt ge maximum minimum atan2
        logical_and logical_or logaddexp""".split()
    },
    **{
        name: (lambda t, name=name: getattr(lt, name)(t["x"]))
        for name in """neg negative abs absolute exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin
        cos tan tanh sinh cosh asinh atan sigmoid erf erfc sign floor ceil round trunc logical_not norm""".split()
    },
    **{name: (lambda t, name=name: getattr(lt, name)(t["x"] / 4)) for name in "asin acos atanh".split()},
    "acosh": lambda t: lt.acosh(t["x"] + 1),
    **{
        name: (lambda t, name=name: getattr(F, name)(t["x"]))
        for name in """logsigmoid relu gelu silu leaky_relu elu celu selu softplus hardtanh relu6 hardswish hardsigmoid
        mish softsign tanhshrink""".split()
    },
    "glu": lambda t: F.glu(t["x"], 1),
    "clamp": lambda t: lt.clamp(t["x"], 0.5, 1.5),
    "clamp_min": lambda t: lt.clamp_min(t["x"], 1.0),
    "clamp_max": lambda t: lt.clamp_max(t["x"], 1.0),
    "lerp": lambda t: lt.lerp(t["x"], t["y"], 0.25),
    "addcmul": lambda t: lt.addcmul(t["x"], t["y"], t["y"], value=0.5),
    "addcdiv": lambda t: lt.addcdiv(t["x"], t["y"], t["y"], value=0.5),
    "where": lambda t: lt.where(t["x"] > t["y"], t["x"], t["row"]),
    "where_method": lambda t: t["x"].where(t["x"] > t["y"], t["row"]),
    "masked_fill": lambda t: t["x"].masked_fill(t["x"] > t["y"], 3.0),
    "softmax": lambda t: t["x"].softmax(-1),
    "log_softmax": lambda t: F.log_softmax(t["x"], dim=1),
    **{
        name: (lambda t, name=name: getattr(t["x"], name)(1))
        for name in "sum mean var std amax amin logsumexp prod cumsum".split()
    },
    "view": lambda t: t["x"].view(2, -1),
    "unsqueeze": lambda t: t["x"].unsqueeze(1) * t["y"],
    "squeeze": lambda t: t["x"].unsqueeze(0).squeeze(0) * 2.0,
    "reshape": lambda t: t["x"].reshape(-1) * 2.0,
    "transpose": lambda t: t["x"].transpose(0, 1) * 2.0,
    "permute": lambda t: t["x"].permute(1, 0) * 2.0,
    "t": lambda t: t["x"].t() * 2.0,
    "flatten": lambda t: t["x"].flatten() * 2.0,
    "unflatten": lambda t: t["x"].unflatten(1, (2, 2)) * 2.0,
    "expand": lambda t: t["row"].expand(3, 4) * t["x"],
    "expand_as": lambda t: t["row"].expand_as(t["x"]) * t["y"],
    "narrow": lambda t: t["x"].narrow(0, 1, 2) * 2.0,
    "movedim": lambda t: t["x"].movedim(0, 1) * 2.0,
    "swapaxes": lambda t: t["x"].swapaxes(0, 1) * 2.0,
    "getitem": lambda t: t["x"][1:, 2] * 2.0,
    "matmul": lambda t: lt.matmul(t["x"], t["square"]),
    "mm": lambda t: lt.mm(t["x"], t["square"]),
    "bmm": lambda t: lt.bmm(t["x"].unsqueeze(0), t["square"].unsqueeze(0)),
    "dot": lambda t: lt.dot(t["row"], t["row"] * 2.0),
    "mv": lambda t: lt.mv(t["x"], t["row"]),
    "outer": lambda t: lt.outer(t["row"], t["row"]),
    "addmm": lambda t: lt.addmm(t["row"], t["x"], t["square"]),
    "baddbmm": lambda t: lt.baddbmm(t["row"], t["x"].unsqueeze(0), t["square"].unsqueeze(0)),
    "linear": lambda t: F.linear(t["x"], t["square"], t["row"]),
    **{f"conv{rank}d": _conv(f"conv{rank}d", rank) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": _conv(f"conv_transpose{rank}d", rank) for rank in (1, 2)},
    "layer_norm": lambda t: F.layer_norm(t["x"], (4,), t["row"], t["row"]),
    "group_norm": lambda t: F.group_norm(t["x"], 2, t["row"]),
    "rms_norm": lambda t: F.rms_norm(t["x"], (4,)),
    **{f"avg_pool{rank}d": (lambda t, r=rank: getattr(F, f"avg_pool{r}d")(t["images"](r), 2)) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": (lambda t, r=rank: getattr(F, f"max_pool{r}d")(t["images"](r), 2)) for rank in (1, 2)},
    **{
        f"adaptive_avg_pool{rank}d": (lambda t, r=rank: getattr(F, f"adaptive_avg_pool{r}d")(t["images"](r), 3))
        for rank in (1, 2)
    },
    "cat": lambda t: lt.cat([t["x"], t["y"]], 1),
    "concat": lambda t: lt.concat([t["x"], t["x"]]),
    "stack": lambda t: lt.stack((t["x"], t["y"])),
    **{
        name: (lambda t, name=name: getattr(F, name)(t["x"], t["y"]))
        for name in "mse_loss l1_loss smooth_l1_loss huber_loss".split()
    },
    "normalize": lambda t: F.normalize(t["x"], dim=-1),
    "max": lambda t: t["x"].max(),
    "min": lambda t: t["x"].min(),
    "argmax": lambda t: t["x"].argmax(1),
    "argmin": lambda t: t["x"].argmin(),
    "prelu": lambda t: F.prelu(t["x"] - 1.0, t["row"]),
    "softmin": lambda t: F.softmin(t["x"], dim=0),
    "select": lambda t: t["x"].select(0, 1) * 2.0,
    "tril": lambda t: lt.tril(t["square"]),
    "triu": lambda t: lt.triu(t["square"], 1),
    "flip": lambda t: t["x"].flip(0),
    "roll": lambda t: t["x"].roll(1, 1),
    "repeat": lambda t: t["x"].repeat(2, 1),
    "tile": lambda t: lt.tile(t["x"], (2, 1)),
    "einsum": lambda t: lt.einsum("ij,jk->k", t["x"], t["square"]),
    "bilinear": lambda t: F.bilinear(t["x"], t["y"], t["square"].unsqueeze(0)),
    "batch_norm": lambda t: F.batch_norm(t["x"], t["row"].detach(), t["row"].detach(), t["row"]),
    "pixel_shuffle": lambda t: F.pixel_shuffle(t["square"].reshape(1, 4, 2, 2), 2),
    "interpolate": lambda t: F.interpolate(t["images"](2), scale_factor=2),
    "kl_div": lambda t: F.kl_div(t["x"], t["y"], reduction="sum"),
    "binary_cross_entropy_with_logits": lambda t: F.binary_cross_entropy_with_logits(t["x"], t["y"] / 2),
    "cosine_similarity": lambda t: F.cosine_similarity(t["x"], t["y"]),
}


def tensors(seed):
    """Return tensors by name: leaves with gradients, and functions that return images and filters of a rank."""
    draw = np.random.default_rng(seed)

    def new(*shape):
        return lt.tensor(draw.uniform(0.2, 2, shape).astype("f4"), requires_grad=True)

    leaves = {"x": new(3, 4), "y": new(3, 4), "row": new(4), "square": new(4, 4)}
    images = {rank: new(1, 2, *(5,) * rank) for rank in (1, 2, 3)}
    filters = {rank: new(2, 2, *(3,) * rank) for rank in (1, 2, 3)}
    return {**leaves, "images": images.__getitem__, "filters": filters.__getitem__}, [
        *leaves.values(),
        *images.values(),
        *filters.values(),
    ]


def results(case):
    """Return the value and the gradients of a case in each turn, with other numbers in each."""
    found = []
    for seed in range(TURNS):
        named, leaves = tensors(seed)
        out = case(named)
        if out.requires_grad:
            (out * out).sum().backward()
        found.append([out.detach().numpy(), *[p.grad.numpy() for p in leaves if p.grad is not None]])
    return found


def test_every_remembered_function_has_a_case():
    assert set(CASES) == TYPE_DETERMINED


@pytest.mark.parametrize("name", sorted(CASES))
def test_calls_that_come_again_give_the_bits_of_the_function(name, monkeypatch):
    replays = []
    replay = remembered_calls._replay
    monkeypatch.setattr(remembered_calls, "_replay", lambda *given: replays.append(0) or replay(*given))
    remembered = results(CASES[name])
    assert replays
    # No argument is part of a key, so every call runs its function.
    monkeypatch.setattr(remembered_calls, "_add_arguments", lambda *given: False)
    for values, expected in zip(remembered, results(CASES[name]), strict=True):
        for value, other in zip(values, expected, strict=True):
            np.testing.assert_array_equal(value, other)


def test_zeros_of_another_sign_are_another_call():
    x = lt.ones(3)
    for _ in range(TURNS):
        assert not np.signbit((x * 0.0).numpy()).any()
        assert np.signbit((x * -0.0).numpy()).all()


def test_operands_that_are_one_tensor_are_another_call():
    x, y = lt.tensor([2.0, 3.0]), lt.tensor([5.0, 7.0])
    for _ in range(TURNS):
        assert (x * x).tolist() == [4, 9]
        assert (x * y).tolist() == [10, 21]


def test_gradients_are_recorded_only_while_they_are_enabled():
    x = lt.ones(3, requires_grad=True)
    for _ in range(TURNS):
        assert (x * 2.0).requires_grad
        with lt.no_grad():
            assert not (x * 2.0).requires_grad


def test_views_are_refused_by_the_strides_of_their_operand():
    for _ in range(TURNS):
        x = lt.zeros(2, 3)
        assert x.view(-1).shape == (6,)
        with pytest.raises(LazyError):
            lt.zeros(3, 2).t().view(-1)


def test_views_of_remembered_calls_share_their_storage():
    for turn in range(TURNS):
        x = lt.zeros(2, 3)
        x.transpose(0, 1)[1] = turn + 1.0
        assert x.sum().item() == 2 * (turn + 1)


def test_checks_of_values_run_in_each_call():
    x = lt.tensor([4, 6])
    for turn in range(TURNS):
        assert (x // lt.tensor([2, 2 + turn])).tolist() == [2, 6 // (2 + turn)]
    with pytest.raises(LazyError):
        (x // lt.tensor([2, 0])).tolist()


def test_a_node_has_the_line_of_its_own_call():
    x, lines = lt.ones(3, requires_grad=True), set()
    for _ in range(TURNS):
        lines.add((x * 3.25).node.where.line)
    first = (x * 3.25).node.where.line
    assert len(lines) == 1
    assert first not in lines


def test_results_of_a_parameter_without_gradients_keep_their_values_after_its_update():
    weight, x = lt.nn.Parameter(lt.randn(4, 4)), lt.randn(3, 4)
    results = []
    for _ in range(5):
        with lt.no_grad():
            product, turned, doubled = x @ weight, weight.t(), weight * 2
            before = weight.numpy(force=True).copy()
            weight.add_(1)
        assert not product.requires_grad
        results.append((product, turned, doubled, before))
        # The same calls record gradients outside of the block.
        (gradient,) = grad((x @ weight).sum(), weight)
        np.testing.assert_allclose(gradient.numpy(), np.repeat(x.numpy().sum(0)[:, None], 4, 1), rtol=1e-5)
    for product, turned, doubled, before in results:
        np.testing.assert_allclose(product.numpy(), x.numpy() @ before, rtol=1e-5)
        np.testing.assert_array_equal(doubled.numpy(), before * 2)
        np.testing.assert_array_equal(turned.numpy(force=True), weight.numpy(force=True).T)
