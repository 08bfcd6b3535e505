"""Functions for models: laws, and NumPy as the second opinion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.device import Device
from lazytensor.nn import functional as F

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.linspace(-2, 2, int(np.prod(shape)))).reshape(shape)


@few
@given(seeds, st.sampled_from(["reflect", "replicate", "circular", "constant"]), st.tuples(*[st.integers(0, 2)] * 4))
def test_pad_agrees_with_numpy(seed, mode, widths):
    x = drawn(seed, 1, 2, 3, 4)
    left, right, top, bottom = widths
    name = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    want = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), name)
    np.testing.assert_array_equal(F.pad(lt.tensor(x), widths, mode).numpy(), want)


@few
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_unpooling_puts_back_what_pooling_found(seed, kernel, stride):
    x = lt.tensor(drawn(seed, 2, 3, 7, 6))
    values, places = F.max_pool2d(x, kernel, stride, return_indices=True)
    back = F.max_unpool2d(values, places, kernel, stride, output_size=(7, 6)) if kernel == stride else None
    flat = x.numpy().reshape(2, 3, -1)
    found = np.take_along_axis(flat, places.numpy().reshape(2, 3, -1), -1)
    np.testing.assert_array_equal(values.numpy().reshape(2, 3, -1), found)
    if back is not None:
        kept = back.numpy()
        np.testing.assert_array_equal(kept[kept != 0], x.numpy()[kept != 0])


@few
@given(seeds, st.floats(0, 0.5))
def test_smoothed_labels_are_the_probabilities_they_stand_for(seed, smoothing):
    scores, labels = lt.tensor(drawn(seed, 5, 4)), np.random.default_rng(seed).integers(0, 4, 5)
    soft = np.eye(4)[labels] * (1 - smoothing) + smoothing / 4
    hard = F.cross_entropy(scores, lt.tensor(labels), label_smoothing=smoothing)
    assert hard.item() == pytest.approx(F.cross_entropy(scores, lt.tensor(soft)).item(), rel=1e-12)


@few
@given(seeds)
def test_ignored_labels_weigh_nothing(seed):
    scores = lt.tensor(drawn(seed, 4, 3, 2))
    labels = np.random.default_rng(seed).integers(0, 3, (4, 2))
    labels[0] = -100
    labels[1] = 1
    got = F.cross_entropy(scores, lt.tensor(labels), lt.tensor([1.0, 2.0, 0.5], dtype=lt.float64))
    rest = F.cross_entropy(scores[1:], lt.tensor(labels[1:]), lt.tensor([1.0, 2.0, 0.5], dtype=lt.float64))
    assert got.item() == pytest.approx(rest.item(), rel=1e-12)


@few
@given(seeds, st.integers(1, 3))
def test_nearest_interpolation_repeats(seed, factor):
    x = drawn(seed, 1, 2, 3, 2)
    want = x.repeat(factor, 2).repeat(factor, 3)
    np.testing.assert_array_equal(F.interpolate(lt.tensor(x), scale_factor=factor).numpy(), want)


@few
@given(seeds)
def test_causal_attention_does_not_see_ahead(seed):
    q, k, v = (lt.tensor(drawn(seed + i, 1, 5, 4)) for i in range(3))
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    part = F.scaled_dot_product_attention(q[:, :3], k[:, :3], v[:, :3], is_causal=True)
    np.testing.assert_allclose(whole[:, :3].numpy(), part.numpy(), rtol=1e-12)


@pytest.mark.parametrize("length", [5, 300])  # the mask is a constant, and compared where it is used
def test_causal_attention_is_that_with_a_mask_of_the_device(length):
    q = lt.tensor(drawn(0, 1, length, 4))
    mask = lt.tensor(np.tri(length, dtype=bool))
    np.testing.assert_array_equal(
        F.scaled_dot_product_attention(q, q, q, is_causal=True).numpy(),
        F.scaled_dot_product_attention(q, q, q, attn_mask=mask).numpy(),
    )
    q.device = Device("lazy:0")
    assert F.scaled_dot_product_attention(q, q, q, is_causal=True).device == q.device


@few
@given(seeds)
def test_sampling_on_the_own_grid_gives_the_image_back(seed):
    x = lt.tensor(drawn(seed, 1, 2, 4, 5))
    theta = lt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], dtype=lt.float64)
    for aligned in (True, False):
        grid = F.affine_grid(theta, x.shape, aligned)
        back = F.grid_sample(x, grid, align_corners=aligned)
        np.testing.assert_allclose(back.numpy(), x.numpy(), rtol=1e-9, atol=1e-9)


def test_grid_sampler_is_grid_sample_with_numbers_for_modes():
    x, grid = lt.arange(18.0).reshape(1, 2, 3, 3), lt.linspace(-1.2, 1.2, 8).reshape(1, 2, 2, 2)
    want = lt.nn.functional.grid_sample(x, grid, "nearest", "border", align_corners=True)
    np.testing.assert_array_equal(lt.grid_sampler_2d(x, grid, 1, 1, True).numpy(), want.numpy())


def test_multilabel_margin_loss_is_that_of_pytorch():
    """Recorded from PyTorch 2.13.0; labels behind the first -1 do not count."""
    x = lt.tensor([[0.1, 0.2, 0.4, 0.8], [0.5, -0.3, 0.9, 0.0]], requires_grad=True)
    y = lt.tensor([[3, 0, -1, 1], [2, -1, 0, 1]])
    loss = lt.nn.MultiLabelMarginLoss()(x, y)
    loss.backward()
    assert loss.item() == pytest.approx(0.5125, rel=1e-6)
    np.testing.assert_allclose(x.grad.numpy().ravel(), [-0.25, 0.25, 0.25, -0.25, 0.125, 0, -0.25, 0.125], atol=1e-6)
    assert F.multilabel_margin_loss(x.detach()[0], y[0]).item() == pytest.approx(0.85, rel=1e-6)


# Recorded from PyTorch 2.13.0: the four values, and the slopes of their sum by the grid.
CUBIC = {
    ("zeros", False): ([0.05805, -0.03717, -0.02819, 0.08627], [1.3544, 0.0024, -0.359, -0.1678]),
    ("border", True): ([-1.02614, -0.08075, 0.13467, 0.46802], [0.3133, 0.1279, 1.1769, -0.3391]),
    ("reflection", False): ([-0.89254, -0.11239, -0.19775, 0.43181], [1.5316, 0.2829, -0.3161, -0.2294]),
}


def waves() -> tuple[lt.Tensor, lt.Tensor]:
    image = np.sin(np.arange(24, dtype=np.float32)).reshape(1, 1, 4, 6)
    grid = (np.cos(np.arange(8, dtype=np.float32) * 1.3) * 1.2).reshape(1, 2, 2, 2)
    return lt.tensor(image, requires_grad=True), lt.tensor(grid, requires_grad=True)


@pytest.mark.parametrize("padding, aligned", CUBIC)
def test_a_grid_reads_an_image_cubically(padding, aligned):
    image, grid = waves()
    y = lt.nn.functional.grid_sample(image, grid, "bicubic", padding, aligned)
    y.sum().backward()
    values, slopes = CUBIC[padding, aligned]
    np.testing.assert_allclose(y.detach().numpy().ravel(), values, atol=2e-5)
    np.testing.assert_allclose(grid.grad.numpy().ravel()[:4], slopes, atol=2e-3)


def test_the_nearest_place_has_a_gradient_of_zero_by_the_grid():
    image, grid = waves()
    lt.nn.functional.grid_sample(image, grid, "nearest").sum().backward()
    assert grid.grad.tolist() == lt.zeros(1, 2, 2, 2).tolist()


def test_what_a_strided_view_replaced_has_the_gradient_as_in_pytorch():
    # Recorded from PyTorch 2.13.0, which gives the replaced places the gradient and the others none.
    base, part = lt.ones(3, 3, requires_grad=True), lt.ones(2, 2, requires_grad=True)
    (lt.as_strided_scatter(base, part, (2, 2), (1, 2), 1) * lt.arange(9.0).reshape(3, 3)).sum().backward()
    assert base.grad.tolist() == [[0, 1, 2], [3, 4, 0], [0, 0, 0]]
    assert part.grad.tolist() == [[1, 3], [2, 4]]


# Recorded from PyTorch 2.13.0: what cross_entropy says of a label that is no class.
@pytest.mark.parametrize(
    "shape, labels, options, wrong",
    [
        ((3, 4), [0, 4, 1], {}, 4),
        ((3, 4), [0, -1, 1], {}, -1),
        ((3, 4), [0, 7, 9], {"ignore_index": 7}, 9),
        ((2, 4, 3), [[0, 1, 2], [3, 4, 5]], {}, 4),
        ((4,), 4, {}, 4),
        ((3, 4), [0, 4, 1], {"label_smoothing": 0.1}, 4),
        ((3, 4), [0, 4, 1], {"weight": lt.ones(4)}, 4),
    ],
)
def test_a_label_that_is_no_class_is_pytorchs_error(shape, labels, options, wrong):
    with pytest.raises(IndexError, match=rf"^Target {wrong} is out of bounds\.(.|\n)*test_functional.py"):
        F.cross_entropy(lt.zeros(shape), lt.tensor(labels), **options)


def test_labels_that_are_ignored_may_be_any_number():
    scores = lt.zeros((3, 4))
    assert F.cross_entropy(scores, lt.tensor([0, -100, 1])).item() == pytest.approx(1.386294, abs=1e-6)
    assert F.nll_loss(scores, lt.tensor([0, 7, 1]), ignore_index=7).item() == 0


@pytest.mark.parametrize("mode", ["foo", "lanczos"])
def test_mode_of_interpolation_that_is_not_provided_is_refused(mode):
    with pytest.raises(NotImplementedError, match=mode):
        F.interpolate(lt.ones(1, 1, 4), 2, mode=mode)
