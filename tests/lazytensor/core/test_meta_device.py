"""Tensors on the device "meta" have a shape and a type, and no values."""

import copy

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")
nn = torch.nn


def meta(*shape, **options):
    return torch.ones(*shape, device="meta", **options)


READINGS = {
    "item": (lambda: meta(1).item(), RuntimeError, "Tensor.item"),
    "float": (lambda: float(meta(1)), RuntimeError, "Tensor.item"),
    "int": (lambda: int(meta(1)), RuntimeError, "Tensor.item"),
    "bool": (lambda: bool(meta(1)), RuntimeError, "Tensor.item"),
    "index": (lambda: [1, 2][meta((), dtype=torch.int64)], RuntimeError, "Tensor.item"),
    "tolist": (lambda: meta(2).tolist(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "cpu": (lambda: meta(2).cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "to": (lambda: meta(2).to("cpu"), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "copy": (lambda: torch.ones(2).copy_(meta(2)), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "model": (lambda: nn.Linear(1, 1, device="meta").to("cpu"), NotImplementedError, r"to_empty\(\)"),
    "numpy": (lambda: meta(2).numpy(), TypeError, "meta"),
    "array": (lambda: np.asarray(meta(2)), TypeError, "meta"),
    "allclose": (lambda: torch.allclose(meta(2), meta(2)), RuntimeError, "meta"),
    "nonzero": (lambda: meta(2).nonzero(), NotImplementedError, "meta"),
    "mask": (lambda: meta(2)[meta(2) > 0], NotImplementedError, "meta"),
    "unique": (lambda: torch.unique(meta(2)), NotImplementedError, "meta"),
}


@pytest.mark.parametrize("name", READINGS)
def test_reading_values_is_an_error(name):
    read, kind, message = READINGS[name]
    with pytest.raises(kind, match=message):
        read()


SHAPES = {
    "sum": (lambda: meta(2).sum(), ()),
    "product": (lambda: meta(2, 3) @ meta(3, 4), (2, 4)),
    "row": (lambda: meta(2, 3)[0], (3,)),
    "places": (lambda: meta(2)[meta(3, dtype=torch.int64)], (3,)),
    "embedding": (lambda: nn.Embedding(3, 2, device="meta")(meta(5, dtype=torch.int64)), (5, 2)),
    "one_hot": (lambda: nn.functional.one_hot(meta(2, dtype=torch.int64), 3), (2, 3)),
    "bernoulli": (lambda: torch.bernoulli(meta(2)), (2,)),
    "multinomial": (lambda: torch.multinomial(meta(2), 1), (1,)),
    "copied to": (lambda: meta(2).copy_(torch.ones(2)), (2,)),
    "deepcopy": (lambda: copy.deepcopy(meta(2)), (2,)),
    "layer": (lambda: nn.TransformerEncoderLayer(4, 1, device="meta", batch_first=True)(meta(1, 2, 4)), (1, 2, 4)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_results_have_a_shape_and_no_values(name):
    make, shape = SHAPES[name]
    result = make()
    assert result.device.type == "meta" and tuple(result.shape) == shape
    assert repr(result).startswith(f"tensor(..., device='meta', size={shape}")


def test_printed_form_names_size_type_and_gradient(pytorch_names):
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    half = meta(2, dtype=torch.float16, requires_grad=True)
    assert repr(half) == "tensor(..., device='meta', size=(2,), dtype=torch.float16, requires_grad=True)"


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_model_on_meta_can_take_a_training_step(kind):
    model = nn.Linear(2, 2, device="meta")
    optimizer = kind(model.parameters(), lr=0.1)
    model(meta(1, 2)).sum().backward()
    optimizer.step()
    assert model.weight.device.type == "meta" and tuple(model.weight.grad.shape) == (2, 2)
