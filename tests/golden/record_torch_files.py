"""Write torch_saved.pt, torch_older.pt, torch_module.pt and torch_formats.zip with PyTorch.

It also checks that PyTorch reads lazytensor_saved.pt and a file in the format of PyTorch 0.1.

    python tests/golden/record_torch_files.py        # in an environment with torch

`tests/lazytensor/serialization/test_reader_and_writer.py` holds the same objects.
"""

import importlib
import io
import pathlib
import pickle
import struct
import tarfile
import tempfile
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque

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


def python_values(torch):
    """What pickle describes by calls, beside tensors."""
    return {
        "milestones": Counter([2, 2, 4]),
        "lists": defaultdict(list, a=[1]),
        "last": deque([1, 2], maxlen=3),
        "sets": ({1, 2}, frozenset([3])),
        "bytes": (b"\xff\x00", bytearray(b"ab"), b""),
        "numbers": (2**3000, -(2**63), 1 + 2j, float("-inf")),
        "slices": (slice(1, None, 2), range(5)),
        "arrays": (np.arange(6).reshape(2, 3), np.array(["a", None], dtype=object), np.float64(2.5)),
        "swapped": np.arange(6, dtype=">i4"),
        "types": [int, OrderedDict, ...],
        "facts": (torch.float32, torch.Size([1]), torch.device("cpu")),
    }


def formats(torch):
    """Files of each format and protocol that PyTorch writes, by name."""
    files = {}
    tensors = OrderedDict(weight=torch.arange(6.0).reshape(2, 3), counts=Counter([2, 2, 4]))
    tensors._metadata = OrderedDict([("", {"version": 1})])
    for protocol in (2, 3, 4, 5):
        for is_zip in (True, False):
            for kind, value in (("values", python_values(torch)), ("tensors", tensors)):
                stream = io.BytesIO()
                torch.save(value, stream, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
                files[f"{kind}_{protocol}_{'zip' if is_zip else 'legacy'}"] = stream.getvalue()
    several = io.BytesIO()
    for step in range(3):
        value = {"step": step, "w": torch.full((step + 1,), float(step))}
        torch.save(value, several, _use_new_zipfile_serialization=False)
    module, sparse = io.BytesIO(), io.BytesIO()
    torch.save(torch.nn.Linear(2, 1), module, _use_new_zipfile_serialization=False)
    torch.save(torch.eye(2).to_sparse(), sparse)
    return files | {"several": several.getvalue(), "module": module.getvalue(), "sparse": sparse.getvalue()}


class _Reference:
    """A tensor of a tar file, by number."""

    def __init__(self, number):
        self.number = number


class _Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.number if isinstance(value, _Reference) else None


def tar_file():
    """A file in the format of PyTorch 0.1: {"w": [[0, 1, 2], [3, 4, 5]], "row": its second row, "n": 3}."""

    def named(name, *values):
        # A tuple that ends with a class of PyTorch's, which need not be there.
        raw = pickle.dumps((*values, None), protocol=2)
        return raw.replace(b"N", b"ctorch\n" + name.encode() + b"\n")

    storages = pickle.dumps(1, 2) + named("FloatStorage", 10, "cpu") + struct.pack("<q", 6)
    storages += np.arange(6, dtype="<f4").tobytes() + pickle.dumps([], 2)
    tensors = pickle.dumps(2, 2)
    for number, size, stride, offset in ((20, (2, 3), (3, 1), 0), (21, (3,), (1,), 3)):
        tensors += named("FloatTensor", number, 10)
        tensors += struct.pack("<i4x", len(size)) + struct.pack(f"<{2 * len(size)}qq", *size, *stride, offset)
    described = io.BytesIO()
    _Pickler(described, 2).dump(OrderedDict(w=_Reference("20"), row=_Reference("21"), n=3))
    facts = {"protocol_version": 1000, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = {
        "sys_info": pickle.dumps(facts, 2),
        "pickle": described.getvalue(),
        "tensors": tensors,
        "storages": storages,
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, raw in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return out.getvalue()


def main():
    torch = importlib.import_module("torch")  # only here: the tests import the cases without it

    torch.save(saved(torch), HERE / "torch_saved.pt")
    torch.save(saved(torch), HERE / "torch_older.pt", _use_new_zipfile_serialization=False)
    torch.manual_seed(1)
    torch.save(whole(torch), HERE / "torch_module.pt")
    with zipfile.ZipFile(HERE / "torch_formats.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in formats(torch).items():
            archive.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED)
    with tempfile.NamedTemporaryFile() as file:
        file.write(tar_file())
        file.flush()
        found = torch.load(file.name, weights_only=False)
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["row"].tolist() == [3, 4, 5]
    check(torch, torch.load(HERE / "torch_saved.pt", weights_only=True))
    check(torch, torch.load(HERE / "lazytensor_saved.pt", weights_only=True))
    print(f"torch {torch.__version__} reads both files")


if __name__ == "__main__":
    main()
