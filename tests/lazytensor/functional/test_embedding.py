"""Embeddings with `max_norm`: rows that are looked up are scaled in place to at most this norm."""

import math

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.core.capture import Capture
from lazytensor.errors import OptionMissing
from lazytensor.nn import Embedding, EmbeddingBag
from lazytensor.nn import functional as F
from lazytensor.runtime.state_store import Store


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, 0.5, math.inf])
def test_rows_that_are_looked_up_have_at_most_this_norm(order, dtype):
    lt.manual_seed(0)
    table = Embedding(6, 4, max_norm=1.0, norm_type=order).to(dtype)
    table.weight.data[3] = 0.01
    before = table.weight.detach().double().numpy().copy()
    rows = table(lt.tensor([[1, 3], [1, 5]]))
    after = table.weight.detach().double().numpy()
    for row in (1, 5):
        # PyTorch divides by the norm plus 1e-7.
        expected = before[row] / (np.linalg.norm(before[row], order) + 1e-7)
        np.testing.assert_allclose(after[row], expected, rtol=8e-3 if dtype is lt.bfloat16 else 1e-6)
    assert (after[[0, 2, 3, 4]] == before[[0, 2, 3, 4]]).all()
    assert (rows.detach().double().numpy() == after[[[1, 3], [1, 5]]]).all()
    rows.sum().backward()
    assert table.weight.grad[:, 0].tolist() == [0.0, 2.0, 0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_scale_their_rows(mode):
    table = EmbeddingBag(4, 2, max_norm=1.0, mode=mode)
    table.weight.data.fill_(3.0)
    bag = table(lt.tensor([[0, 2]]))
    np.testing.assert_allclose(table.weight.detach()[:, 0].tolist(), [0.5**0.5, 3.0, 0.5**0.5, 3.0], rtol=1e-6)
    np.testing.assert_allclose(bag.detach().tolist(), [[(2 if mode == "sum" else 1) * 0.5**0.5] * 2], rtol=1e-6)


def test_rows_of_a_view_are_scaled_in_its_base():
    base = lt.ones(3, 4) * 5
    F.embedding(lt.tensor([1]), base[:, :2], max_norm=1.0)
    np.testing.assert_allclose(base.tolist(), [[5.0] * 4, [0.5**0.5] * 2 + [5.0] * 2, [5.0] * 4], rtol=1e-6)


def test_scaling_changes_a_value_that_a_gradient_needs():
    table = Embedding(3, 2, max_norm=0.1)
    loss = (table.weight**2).sum()
    table(lt.tensor([1]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_zero_and_negative_norms_scale_as_in_pytorch():
    weight = lt.tensor([[3.0, 4.0]])
    F.embedding(lt.tensor([0]), weight, max_norm=-1.0)
    np.testing.assert_allclose(weight.tolist(), [[-0.6, -0.8]], rtol=1e-6)
    F.embedding(lt.tensor([0]), weight, max_norm=0)
    assert weight.tolist() == [[0.0, 0.0]]


def test_step_that_is_compiled_refuses_max_norm():
    table = Embedding(3, 2, max_norm=1.0)
    with Capture(Store(), False), pytest.raises(OptionMissing, match="cannot be compiled"):
        table(lt.tensor([1]))


def test_text_of_a_table_names_its_norm():
    assert repr(Embedding(5, 4, 1, 2.0, 1.0)) == "Embedding(5, 4, padding_idx=1, max_norm=2.0, norm_type=1.0)"
    assert repr(EmbeddingBag(5, 4, max_norm=1.0)) == "EmbeddingBag(5, 4, max_norm=1.0, mode='mean')"
