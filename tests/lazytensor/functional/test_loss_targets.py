"""Labels and class weights that do not fit a loss: PyTorch's types and sentences, recorded from PyTorch 2.13.0."""

import pytest

import lazytensor as lt
from lazytensor.core.autocast import autocast, host_autocast
from lazytensor.errors import CountInvalid, ShapeError

F = lt.nn.functional
LOSSES = pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy])
OF_SAMPLES = "weight tensor should be defined either for all 3 classes or no classes but got weight tensor of shape: {}"
OF_PLACES = "weight tensor should be defined either for all or no classes"
SHAPES = [(2,), (4,), (0,), (1,), (), (3, 3)]


def zeros(*shape, dtype=lt.int64):
    return lt.zeros(*shape, dtype=dtype)


def said(call):
    with pytest.raises(ShapeError) as e:
        call()
    return str(e.value)


@LOSSES
@pytest.mark.parametrize("weights", [*SHAPES, (3, 1), (1, 3)])
@pytest.mark.parametrize("scores, labels", [((3,), ()), ((3,), (1,)), ((4, 3), (4,)), ((0, 3), (0,))])
def test_weights_of_other_classes_are_refused_for_samples(loss, scores, labels, weights):
    assert OF_SAMPLES.format(list(weights)) in said(lambda: loss(lt.zeros(scores), zeros(labels), lt.ones(weights)))


@LOSSES
@pytest.mark.parametrize("weights", SHAPES)
@pytest.mark.parametrize("places", [(4,), (4, 5), (2, 2, 2)])
def test_weights_of_other_classes_are_refused_for_places(loss, places, weights):
    scores, labels = lt.zeros(2, 3, *places), zeros(2, *places)
    assert OF_PLACES in said(lambda: loss(scores, labels, lt.ones(weights)))


@pytest.mark.parametrize("weights", [*SHAPES, (3, 1), (1, 3)])
@pytest.mark.parametrize("scores", [(3,), (4, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_weights_of_other_classes_are_refused_for_probabilities(scores, weights):
    text = said(lambda: F.cross_entropy(lt.zeros(scores), lt.zeros(scores), lt.ones(weights)))
    assert f"cross_entropy: {OF_SAMPLES.format(list(weights))}" in text


@LOSSES
@pytest.mark.parametrize("weights", [(3,), (3, 1), (1, 3)])
def test_weights_for_places_are_counted_however_they_lie(loss, weights):
    scores, labels = lt.arange(24.0).reshape(2, 3, 4), zeros(2, 4)
    flat = loss(scores, labels, lt.tensor([1.0, 2.0, 3.0]))
    assert float(loss(scores, labels, lt.tensor([1.0, 2.0, 3.0]).reshape(weights))) == float(flat)


@LOSSES
@pytest.mark.parametrize(
    "of_weights, word",
    [("uint8", "Byte"), ("float64", "Double"), ("int64", "Long"), ("float16", "Half")],
)
def test_weights_of_another_type_are_refused(loss, of_weights, word):
    weights = lt.ones(3).to(getattr(lt, of_weights))
    assert f"expected scalar type Float but found {word}" in said(lambda: loss(lt.zeros(4, 3), zeros(4), weights))


@LOSSES
@pytest.mark.parametrize("casts", [autocast, host_autocast])
def test_automatic_casts_bring_narrow_weights_and_scores_together(loss, casts):
    labels = lt.tensor([0, 1, 2, 1])
    with casts(lt.bfloat16):
        assert loss(lt.ones(4, 3), labels, lt.ones(3).to(lt.bfloat16)).dtype is lt.float32
        assert "found Double" in said(lambda: loss(lt.ones(4, 3), labels, lt.ones(3).to(lt.float64)))


@LOSSES
@pytest.mark.parametrize(
    "scores, labels, words",
    [
        ((4, 3), (), "Expected input batch_size (4) to match target batch_size (0)."),
        ((4, 3), (5,), "Expected input batch_size (4) to match target batch_size (5)."),
        ((4, 3), (2, 2), "Expected input batch_size (4) to match target batch_size (2)."),
        ((2, 3, 4, 5), (3,), "Expected input batch_size (2) to match target batch_size (3)."),
        ((3,), (2,), "For 1D input, 1D target must have size 1, but got target size: 2"),
    ],
)
def test_labels_that_are_not_one_for_each_sample_are_a_value_error(loss, scores, labels, words):
    with pytest.raises(ValueError) as e:
        loss(lt.zeros(scores), zeros(labels))
    assert str(e.value).splitlines()[0] == words and isinstance(e.value, CountInvalid)


@LOSSES
@pytest.mark.parametrize(
    "scores, labels, dtype, words",
    [
        ((4, 3), (4, 1), lt.int64, "0D or 1D target tensor expected, multi-target not supported"),
        ((2, 3, 4), (2, 5), lt.int64, "Expected target size [2, 4], got [2, 5]"),
        ((4, 3), (4,), lt.float32, "expected target dtype to be Long or Byte, but got Float"),
    ],
)
def test_labels_of_another_shape_or_type_are_refused(loss, scores, labels, dtype, words):
    assert words in said(lambda: loss(lt.zeros(scores), zeros(labels, dtype=dtype)))


@LOSSES
def test_labels_may_be_bytes_and_those_of_one_sample_a_list(loss):
    scores = lt.arange(12.0).reshape(4, 3)
    assert float(loss(scores, zeros(4, dtype=lt.uint8))) == float(loss(scores, zeros(4)))
    assert loss(scores[0], zeros(1), reduction="none").shape == ()
