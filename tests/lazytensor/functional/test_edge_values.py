"""Batches without elements, saturated probabilities and masks that hide all give PyTorch's values."""

import math

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.nn import functional as F


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(("layer", "shape"), [(nn.BatchNorm1d, (0, 2)), (nn.BatchNorm2d, (0, 2, 3, 3))])
def test_empty_batch_leaves_running_statistics(layer, shape, momentum):
    norm = layer(2, momentum=momentum)
    assert norm(lt.zeros(shape)).shape == shape
    assert norm.running_mean.tolist() == [0, 0]
    assert norm.running_var.tolist() == [1, 1]
    assert norm.num_batches_tracked == 1


def test_gradient_of_atan2_at_the_origin_is_zero():
    a, b = lt.zeros(1, requires_grad=True), lt.zeros(1, requires_grad=True)
    lt.atan2(a, b).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (0, 0)


def test_saturated_wrong_probabilities_have_a_gradient():
    x = lt.tensor([0.0, 1.0, 0.5, 1.0], requires_grad=True)
    F.binary_cross_entropy(x, lt.tensor([1.0, 0.0, 1.0, 1.0]), reduction="sum").backward()
    assert x.grad.tolist() == [-999999995904.0, 999999995904.0, -2.0, 0.0]


@pytest.mark.parametrize("value", [1.2, -0.1, math.nan])
@pytest.mark.parametrize("what", ["input", "target"])
def test_probability_outside_of_0_to_1_is_refused(value, what):
    good, bad = lt.tensor([0.5]), lt.tensor([value])
    with pytest.raises(RuntimeError, match=f"all elements of {what} should be between 0 and 1"):
        F.binary_cross_entropy(*((bad, good) if what == "input" else (good, bad)))


def test_computed_probability_outside_of_0_to_1_is_refused_when_it_is_read():
    loss = F.binary_cross_entropy(lt.ones(2) * 3, lt.ones(2))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        loss.item()


def test_probabilities_and_targets_of_unlike_types_are_refused():
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        F.binary_cross_entropy(lt.tensor([0.5]), lt.tensor([1.0], dtype=lt.float64))


def test_ctc_of_no_steps_is_certain_for_an_empty_target_only():
    scores = lt.zeros(4, 2, 3).log_softmax(2)
    loss = F.ctc_loss(scores, lt.ones(2, 1, dtype=lt.int64), [0, 0], [0, 1], reduction="none")
    assert loss.tolist() == [0, math.inf]


def test_ctc_has_no_second_derivative_as_in_pytorch():
    scores = lt.zeros(4, 1, 3, requires_grad=True)
    loss = F.ctc_loss(scores.log_softmax(2), lt.ones(1, 1, dtype=lt.int64), [4], [1])
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not implemented"):
        loss.backward(create_graph=True)
        scores.grad.square().sum().backward()


@pytest.mark.parametrize(
    ("lengths", "blank", "words"),
    [(([-1], [1]), 0, "at least 0"), (([4], [-1]), 0, "at least 0"), (([4], [2]), 0, "size"), (([4], [1]), 3, "blank")],
)
def test_ctc_refuses_lengths_and_labels_that_do_not_fit(lengths, blank, words):
    with pytest.raises(RuntimeError, match=words):
        F.ctc_loss(lt.zeros(4, 1, 3).log_softmax(2), lt.ones(1, 1, dtype=lt.int64), *lengths, blank=blank)


@pytest.mark.parametrize(("mode", "last"), [("sum", [10, 12]), ("max", [6, 7]), ("mean", [2.5, 3])])
def test_last_offset_ends_the_last_bag(mode, last):
    table = lt.arange(12.0).view(6, 2)
    bags = F.embedding_bag(
        lt.tensor([5, 4, 3, 2, 1, 0]), table, lt.tensor([0, 2, 4]), mode=mode, include_last_offset=True
    )
    assert bags[1].tolist() == last


@pytest.mark.parametrize("offsets", [[1, 2], [0, 7]])
def test_offsets_outside_of_the_input_are_refused(offsets):
    with pytest.raises(RuntimeError, match="offsets"):
        F.embedding_bag(lt.zeros(6, dtype=lt.int64), lt.ones(3, 2), lt.tensor(offsets))


def encoder(**options) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, **options).eval()


def test_padding_is_zero_after_an_encoder_in_evaluation():
    padding = lt.tensor([[False, False, True], [True, True, True]])
    with lt.no_grad():
        out = encoder()(lt.ones(2, 3, 4), src_key_padding_mask=padding)
    assert (out[padding] == 0).all()
    assert (out[~padding] != 0).any()


def test_padding_stays_where_pytorch_makes_no_nested_tensor():
    padding = lt.tensor([[False, True, False]])
    with lt.no_grad():
        inside = encoder()(lt.ones(1, 3, 4), src_key_padding_mask=padding)
        plain = encoder(enable_nested_tensor=False)(
            lt.ones(1, 3, 4), src_key_padding_mask=lt.tensor([[False, False, True]])
        )
    assert (inside != 0).any(-1).all()
    assert (plain != 0).any(-1).all()


def test_row_that_is_all_padding_has_values_and_gradients_in_training():
    x = lt.ones(2, 3, 4, requires_grad=True)
    out = encoder().train()(x, src_key_padding_mask=lt.tensor([[False] * 3, [True] * 3]))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("activation", ["relu", nn.ReLU(), nn.GELU()])
def test_padding_is_zero_for_activations_of_the_fast_path(activation):
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=activation, batch_first=True, dropout=0.0)
    padding = lt.tensor([[False, True]])
    with lt.no_grad():
        out = nn.TransformerEncoder(layer, 1).eval()(lt.ones(1, 2, 4), src_key_padding_mask=padding)
    assert (out[padding] == 0).all()


@pytest.mark.parametrize("query, key", [((1, 2, 4), (1, 3, 4)), ((3, 4), (3, 4))])
def test_hidden_keys_give_zeros_outside_of_the_fast_path(query, key):
    attention = nn.MultiheadAttention(
        4,
        2,
        batch_first=True,
    ).eval()
    keys = lt.ones(*key)
    with lt.no_grad():
        out, _ = attention(
            lt.ones(*query) * 2, keys, keys, key_padding_mask=lt.ones(*key[:-1]).bool(), need_weights=False
        )
    assert (out == 0).all()


def test_empty_tensors_repeat_any_number_of_times():
    assert lt.zeros(0).repeat(1 << 33).shape == (0,)


def test_zero_has_the_sign_that_pytorch_gives():
    negative, positive = [-math.inf], [math.inf]
    zero, one = lt.tensor([-0.0]), lt.tensor([1.0])
    assert (1 / F.relu(zero)).tolist() == negative
    assert (1 / F.hardshrink(lt.tensor([-0.3]))).tolist() == positive
    assert (1 / (one % -0.5)).tolist() == positive
    assert (1 / (-one % 0.5)).tolist() == negative
    assert (1 / (lt.tensor([False]) % -0.5)).tolist() == positive


@pytest.mark.parametrize(
    "write", [lambda x: x.fill_(-0.75), lambda x: x[:1].fill_(-1.0), lambda x: x.masked_fill_(x > 0, -4.5)]
)
def test_negative_float_is_refused_where_uint8_stores_it(write):
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        write(lt.ones(2, dtype=lt.uint8))
    # An integer counts down from the end.
    assert lt.ones(2, dtype=lt.uint8).fill_(-1).tolist() == [255, 255]


def test_alpha_has_no_part_in_the_type_of_a_sum():
    number, mask = lt.tensor(-3, dtype=lt.int8), lt.tensor([True, False])
    assert lt.add(number, mask, alpha=-3).dtype is lt.int8
    assert lt.add(number, mask, alpha=-3).tolist() == [-6, -3]


def test_addcmul_of_booleans_is_refused():
    mask = lt.tensor([True])
    with pytest.raises(NotImplementedError):
        lt.addcmul(mask, mask, mask)


def test_one_dimension_flattened_is_the_tensor_itself():
    x = lt.ones(2, 3, requires_grad=True)
    assert x.flatten(1) is x and x.flatten(0, 0) is x and x.flatten() is not x


@pytest.mark.parametrize(
    "layer", [nn.InstanceNorm1d(2, affine=True), nn.InstanceNorm1d(2, track_running_stats=True), nn.MaxPool1d(2)]
)
def test_second_walk_back_through_a_layer_is_refused(layer):
    y = layer(lt.randn(2, 2, 4).requires_grad_())
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_booleans_are_divided_by_integers_with_rounding():
    mask = lt.tensor([True, False])
    quotient = lt.div(mask, -1, rounding_mode="trunc")
    assert (quotient.tolist(), quotient.dtype) == ([-1, 0], lt.int64)


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16])
def test_distances_of_half_types_are_refused(dtype):
    with pytest.raises(NotImplementedError):
        lt.cdist(lt.ones(2, 3, dtype=dtype), lt.ones(2, 3, dtype=dtype))


NAN, INF = math.nan, math.inf
EDGE_GRADIENTS = {
    "max": (lambda x: x.max(), [1.0, NAN, 2.0, NAN], [0.0, 0.5, 0.0, 0.5]),
    "min": (lambda x: x.min(), [1.0, NAN, -INF], [0.0, 1.0, 0.0]),
    "max of ties": (lambda x: x.max(), [3.0, 3.0, 1.0], [0.5, 0.5, 0.0]),
    "amax": (lambda x: x.amax(), [1.0, NAN], [NAN, NAN]),
    "median": (lambda x: x.median(), [NAN, 1.0, NAN], [0.5, 0.0, 0.5]),
    "logit": (lambda x: x.logit().sum(), [0.0, 1.0, 0.5, 1.5, NAN], [INF, INF, 4.0, NAN, NAN]),
    "logit with eps": (lambda x: x.logit(0.1).sum(), [0.0, 1.0, 0.5, 0.05], [0.0, 0.0, 4.0, 0.0]),
    "nextafter": (lambda x: lt.nextafter(x, lt.tensor([1.0, 3.0, NAN])).sum(), [1.0, 2.0, 3.0], [0.0, 1.0, 1.0]),
    "exponent": (
        lambda x: (lt.tensor([-2.0, -2.0, 0.0, 0.0, 0.0, -1.0]) ** x).sum(),
        [2.0, 0.0, 0.0, 2.0, -1.0, 0.5],
        [NAN, NAN, 0.0, 0.0, -INF, NAN],
    ),
}
"""Function, operand and PyTorch's gradient."""


@pytest.mark.parametrize("name", EDGE_GRADIENTS)
def test_gradient_at_edge_values_is_pytorchs(name):
    function, values, expected = EDGE_GRADIENTS[name]
    x = lt.tensor(values, requires_grad=True)
    function(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected)
