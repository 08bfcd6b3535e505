"""Write torch_saved.pt, torch_older.pt and torch_module.pt with PyTorch, and check that it reads lazytensor_saved.pt.

    python tests/golden/record_torch_files.py        # in an environment with torch

`tests/lazytensor/test_serialization.py` holds the same objects.
"""

import importlib
import pathlib
from collections import OrderedDict

import numpy as np

HERE = pathlib.Path(__file__).parent


def saved(torch):
    """Every element type, views of one storage, a parameter, and plain containers."""
    base = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]])
    kinds = ["float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    values = torch.tensor([1.0, 0.0, 3.0])
    weight = torch.nn.Parameter(torch.tensor([[0.5, -1.5]]))
    return {
        "base": base,
        "row": base[1],
        "window": base[::2, 1:3],
        "turned": base.t(),
        "kinds": {k: values.to(getattr(torch, k)) for k in kinds},
        "rounded": torch.tensor([3.140625, float("inf"), -0.0]).to(torch.bfloat16),
        "parameter": weight,
        "state": OrderedDict([("weight", weight.detach()), ("tied", weight.detach())]),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
        "plain": [1, -(2**40), 2.5, None, True, "text \u00e9", (1, "two"), {"k": [1]}],
        "facts": (torch.Size([2, 3]), torch.float16, torch.device("cpu")),
    }


def whole(torch):
    """Layers as objects, and arrays."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 2), nn.Identity())
    return {"model": model, "array": np.arange(6).reshape(2, 3), "number": np.float32(2.5), "set": {1, 2}}


def check(torch, found):
    """Whether an object that was read equals `saved`, with its sharing."""
    expected = saved(torch)
    assert list(found) == list(expected)
    for k in ("base", "row", "window", "turned", "rounded", "parameter", "empty", "scalar"):
        assert found[k].tolist() == expected[k].tolist() and found[k].dtype == expected[k].dtype, k
        assert tuple(found[k].shape) == tuple(expected[k].shape), k
    for k, v in expected["kinds"].items():
        assert found["kinds"][k].tolist() == v.tolist() and found["kinds"][k].dtype == v.dtype, k
    assert found["plain"] == expected["plain"] and found["facts"] == expected["facts"]
    assert type(found["parameter"]).__name__ == "Parameter" and found["parameter"].requires_grad
    assert type(found["state"]) is OrderedDict
    found["base"][1, 2] = 99.0
    assert found["row"].tolist() == [4.0, 5.0, 99.0, 7.0] and found["turned"][2, 1].item() == 99.0
    found["window"][1, 0] = -1.0
    assert found["base"][2, 1].item() == -1.0


def main():
    torch = importlib.import_module("torch")  # only here: the tests import the cases without it

    torch.save(saved(torch), HERE / "torch_saved.pt")
    torch.save(saved(torch), HERE / "torch_older.pt", _use_new_zipfile_serialization=False)
    torch.manual_seed(1)
    torch.save(whole(torch), HERE / "torch_module.pt")
    check(torch, torch.load(HERE / "torch_saved.pt", weights_only=True))
    check(torch, torch.load(HERE / "lazytensor_saved.pt", weights_only=True))
    print(f"torch {torch.__version__} reads both files")


if __name__ == "__main__":
    main()
