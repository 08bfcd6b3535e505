"""Files in PyTorch's zip format: both ways, bit for bit, and nothing of a file is ever executed."""

import io
import os
import pathlib
import pickle
import types
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.torch.serialization.save_and_load import load as torch_load
from lazytensor.core.dtype import ALL as ALL_DTYPES
from lazytensor.errors import CheckpointError
from lazytensor.optim import eager
from lazytensor.serialization import load, load_lazily, save
from lazytensor.serialization.layout import check_view
from tests.golden.record_torch_files import check, saved

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"

torch = types.SimpleNamespace(**{name: getattr(lt, name) for name in dir(lt) if not name.startswith("_")})
torch.bool, torch.device, torch.Size = lt.bool_, lt.Device, lt.Size

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def file_of(obj) -> bytes:
    out = io.BytesIO()
    save(obj, out)
    return out.getvalue()


def read(raw: bytes):
    return load(io.BytesIO(raw))


def archive(pickled: bytes, storages: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        z.writestr("archive/data.pkl", pickled)
        for key, raw in (storages or {}).items():
            z.writestr(f"archive/data/{key}", raw)
    return out.getvalue()


def test_file_written_by_pytorch_is_read():
    check(torch, load(GOLDEN / "torch_saved.pt"))


def test_file_is_the_one_that_pytorch_has_read():
    assert file_of(saved(torch)) == (GOLDEN / "lazytensor_saved.pt").read_bytes()


def test_file_comes_back():
    check(torch, read(file_of(saved(torch))))


@settings(max_examples=100, deadline=None)
@given(PLAIN)
def test_plain_objects_come_back(obj):
    found = read(file_of(obj))
    assert found == obj and repr(found) == repr(obj)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=3), st.sampled_from(ALL_DTYPES), st.integers(0, 2**32 - 1))
def test_tensors_come_back_bit_for_bit(shape, dtype, seed):
    if dtype is lt.cbfloat16:
        return
    values = np.random.default_rng(seed).integers(0, 256, (*shape, 8), np.uint8)
    x = lt.tensor(values.sum(-1, dtype=np.int64) * (1 / 3 if dtype.kind == "f" else 1)).to(dtype)
    found = read(file_of([x, x]))
    assert found[0] is found[1]
    assert found[0].dtype is dtype and found[0].array().tobytes() == x.array().tobytes() and found[0].shape == x.shape


def test_tied_parameters_stay_tied_and_optimizer_state_travels():
    model = lt.nn.Linear(3, 2)
    optimizer = eager.Adam(model.parameters(), lr=0.1)
    model(lt.ones(4, 3)).sum().backward()
    optimizer.step()
    found = read(file_of({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    other = lt.nn.Linear(3, 2)
    other.load_state_dict(found["model"])
    assert other.weight.tolist() == model.weight.tolist()
    again = eager.Adam(other.parameters(), lr=0.5)
    again.load_state_dict(found["optimizer"])
    assert again.param_groups[0]["lr"] == 0.1 and again.state[other.weight]["step"].item() == 1
    for m, o in ((model, optimizer), (other, again)):
        m.zero_grad()
        m(lt.ones(4, 3)).sum().backward()
        o.step()
    assert other.weight.tolist() == model.weight.tolist()


def moved(raw: bytes, location: bytes) -> bytes:
    """A file of one tensor whose storage says another device."""
    with zipfile.ZipFile(io.BytesIO(raw)) as z:
        pickled, data = z.read("archive/data.pkl"), z.read("archive/data/0")
    changed = pickled.replace(b"X\x03\0\0\0cpu", b"X" + len(location).to_bytes(4, "little") + location)
    return archive(changed, {"0": data})


LOCATIONS = [  # what torch.load of PyTorch answers for a file from the CPU, and for one from a graphics card
    (None, "cpu", RuntimeError), ("cpu", "cpu", "cpu"), (lt.Device("cpu"), "cpu", "cpu"), ("meta", "meta", "meta"),
    ("cuda", RuntimeError, RuntimeError), ("bogus", RuntimeError, RuntimeError), (3, TypeError, TypeError),
    ({"cuda:0": "cpu"}, "cpu", "cpu"), ({"cuda:0": "meta"}, "cpu", "meta"), ({"cpu": "meta"}, "meta", RuntimeError),
    (lambda storage, said: storage, "cpu", "cpu"), (lambda storage, said: None, "cpu", RuntimeError),
    (lambda storage, said: storage.cpu(), "cpu", "cpu"), (lambda storage, said: storage.cuda(0), *[RuntimeError] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("map_location", "from_cpu", "from_cuda"), LOCATIONS, ids=range(len(LOCATIONS)))
def test_tensors_come_where_the_file_or_the_caller_says(map_location, from_cpu, from_cuda):
    raw = file_of({"x": lt.ones(2)})
    for file, answer in ((raw, from_cpu), (moved(raw, b"cuda:0"), from_cuda)):
        if isinstance(answer, str):
            assert load(io.BytesIO(file), map_location)["x"].device == lt.Device(answer)
        else:
            with pytest.raises(answer):
                load(io.BytesIO(file), map_location)


class Planted:
    """A pickle that creates a file when it is executed."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("protocol", range(6))
def test_calling_pickle_is_refused_and_not_executed(tmp_path, protocol):
    path = tmp_path / "planted"
    raw = pickle.dumps({"a": Planted(path)}, protocol)
    with pytest.raises(CheckpointError, match=r"not on the list|not allowed"):
        read(archive(raw))
    assert not path.exists()
    pickle.loads(raw)["a"].close()  # the plant is a real one
    assert path.exists()


@pytest.mark.parametrize(
    "pickled, message",
    [
        (b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.", "posix.system"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.", "contains only the name"),
        (b"\x80\x02]}R.", "calls a function with arguments that are not a tuple"),
        (b"(icollections\nOrderedDict\n.", "INST"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.", "posix.system"),
        (b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "unknown encoding"),
        (b"\x80\x02c__builtin__\nset\nc__builtin__\nrange\nJ\xff\xff\xff\x7f\x85R\x85R.", "with the items of a range"),
        (b"\x80\x02c__builtin__\nlist\n)R.", "calls an object that is not on the list"),
        (b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nobject\n\x85R.", "factory is 'object'"),
        (b"\x80\x02}K\x01a.", "adds items to a dict"),
        (b"\x80\x02", "damaged"),
        (b"\x80\x02.", "damaged"),
        (b"\x80\x02e.", "damaged"),
        (b"\x80\x02h\x05.", "damaged"),
        (b"\x80\x02X\xff\xff\xff\xff.", "damaged"),
        (
            b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00qX\x03\x00\x00\x00cpuK\x01tQ.",
            "no storage",
        ),
    ],
)
def test_description_that_no_writer_makes_is_refused(pickled, message):
    with pytest.raises(CheckpointError, match=message):
        read(archive(pickled))


def tensor_arguments(count: int, offset: int, size: int, stride: int) -> bytes:
    """The pickled tuple of arguments of `_rebuild_tensor_v2`."""
    i = lambda n: b"J" + int(n).to_bytes(4, "little", signed=True)  # noqa: E731
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + i(count) + b"tQ"
    )
    return b"(" + storage + i(offset) + i(size) + b"\x85" + i(stride) + b"\x85\x89ccollections\nOrderedDict\n)Rt"


def tensor_pickle(*numbers: int) -> bytes:
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + tensor_arguments(*numbers) + b"R."


@pytest.mark.parametrize(
    "numbers, message",
    [
        ((1000, 0, 4, 1), "bytes for 1000"),
        ((-4, 0, 4, 1), "bytes for -4"),
        ((4, 1, 4, 1), "reads element 4"),
        ((4, 0, 4, 2), "reads element 6"),
        ((4, -1, 2, 1), "offset -1"),
        ((4, 0, -2, 1), "size"),
        ((4, 3, 2, -1), "strides"),
        ((4, 0, 2**31 - 1, 1), "reads element"),
    ],
)
def test_numbers_that_reach_outside_are_refused(numbers, message):
    good = read(archive(tensor_pickle(4, 1, 2, 2), {"0": np.arange(4, dtype="<f4").tobytes()}))
    assert good.tolist() == [1.0, 3.0]
    with pytest.raises(CheckpointError, match=message):
        read(archive(tensor_pickle(*numbers), {"0": np.arange(4, dtype="<f4").tobytes()}))


def attributed(state: bytes) -> bytes:
    """An archive of a tensor [0, 1] with the pickled attributes `state`."""
    call = b"(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n" + tensor_arguments(2, 0, 2, 1) + state + b"tR."
    pickled = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n" + call
    return archive(pickled, {"0": np.arange(2, dtype="<f4").tobytes()})


NOTE = b"}X\x04\x00\x00\x00noteK\x05s"  # {"note": 5}
SUM = b"}X\x03\x00\x00\x00sumK\x05s"


@pytest.mark.parametrize(
    "state, attributes",
    [(b"N", {}), (b")", {}), (NOTE, {"note": 5}), (NOTE + b"N\x86", {"note": 5}), (SUM + NOTE + b"\x86", {"note": 5})],
)
def test_attributes_of_a_tensor_come_back_but_not_those_of_its_class(state, attributes):
    tensor = read(attributed(state))
    assert vars(tensor) == attributes and tensor.sum().item() == 1
    # Arrays that are read on demand have no attributes, but the file is a valid one.
    lazy = load_lazily(io.BytesIO(attributed(state)), "file")
    assert lazy.read().tolist() == [0, 1]


META = b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\nK\x02\x85K\x01\x85\x89tR"
NO_ATTRIBUTES = {"int": b"K\x05", "list": b"]", "DType": b"ctorch\nfloat32\n", "Tensor": META, "tuple": b")\x85"}


@pytest.mark.parametrize("kind", NO_ATTRIBUTES)
def test_attributes_that_are_no_dict_are_refused(kind):
    message = f"a {kind} where a dict of attributes is expected"
    ordered = archive(b"\x80\x02ccollections\nOrderedDict\n)R" + NO_ATTRIBUTES[kind] + b"b.")
    for raw in (attributed(NO_ATTRIBUTES[kind]), attributed(NO_ATTRIBUTES[kind] + b"\x85"), ordered):
        with pytest.raises(CheckpointError, match=message):
            read(raw)


def doubled(levels: int) -> bytes:
    """A pickled tuple that holds the one before it twice, and so on: a few bytes for each level."""
    return b"K\x01" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(levels))


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02}" + doubled(60) + b"K\x01s.",
        b"\x80\x02}(" + doubled(60) + b"K\x01u.",
        b"\x80\x02ccollections\nOrderedDict\n(](" + doubled(60) + b"K\x01\x86etR.",
        b"\x80\x02" + STORAGE + doubled(60) + b"X\x03\x00\x00\x00cpuK\x01tQ.",
        b"\x80\x02" + STORAGE + b"X\x01\x00\x00\x000" + doubled(60) + b"K\x01tQ.",
        b"\x80\x02ctorch\ndevice\n" + doubled(60) + b"\x85R.",
    ],
)
def test_shared_tuples_where_a_key_or_a_name_belongs_are_refused_at_once(pickled):
    with pytest.raises(CheckpointError, match=r"more than 10,000 values|where a name is expected"):
        read(archive(pickled))


def test_shared_tuples_as_values_are_what_pytorch_gives():
    answer = read(archive(b"\x80\x02" + doubled(60) + b"."))
    assert answer[0] is answer[1]


def test_a_tensor_that_no_memory_holds_is_refused():
    with pytest.raises(CheckpointError, match="larger than any memory"):
        check_view(4, 0, (2**31, 2**31), (0, 0))


@pytest.mark.parametrize("read_file", [load, torch_load])
def test_a_pipe_is_refused_and_not_waited_for(read_file, tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(CheckpointError, match=r"pipe\.pt is a pipe or a device"):
        read_file(str(tmp_path / "pipe.pt"))


def test_truncated_file_is_refused_wherever_it_is_cut():
    raw = file_of({"a": lt.arange(5.0), "b": [1, 2]})
    for cut in range(0, len(raw) - 1, 7):
        with pytest.raises(CheckpointError):
            read(raw[:cut])


def test_record_that_claims_more_than_the_file_has_is_refused():
    raw = file_of({"a": lt.arange(5.0)})
    lying = raw.replace((20).to_bytes(4, "little"), (1 << 30).to_bytes(4, "little"))
    assert lying != raw
    with pytest.raises(CheckpointError, match="claim more bytes"):
        read(lying)


def test_two_records_of_one_name_are_refused():
    out = io.BytesIO(archive(tensor_pickle(4, 0, 4, 1), {"0": bytes(16)}))
    with zipfile.ZipFile(out, "a") as z, pytest.warns(UserWarning, match="Duplicate name"):
        z.writestr(next(n for n in z.namelist() if n.endswith("data/0")), bytes(16))
    with pytest.raises(CheckpointError, match="two records with the same name"):
        read(out.getvalue())


def test_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_byte_gives_an_object_or_our_error(data):
    raw = bytearray(file_of({"a": lt.arange(5.0), "b": [1, (2, "x")]}))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    try:
        read(bytes(raw))
    except CheckpointError:
        return


@pytest.mark.parametrize(
    "raw, message",
    [
        (b"", "zip format"),
        (pickle.dumps({"old": 1}), "zip format"),
        (archive(b"\x80\x02N.", compression=zipfile.ZIP_DEFLATED), "compressed"),
    ],
)
def test_other_formats_are_refused(raw, message):
    with pytest.raises(CheckpointError, match=message):
        read(raw)


@pytest.mark.parametrize("obj", [object(), {1, 2}, lt.nn.Linear(1, 1), lt.ones(1).to(lt.cbfloat16), b"bytes"])
def test_objects_without_a_place_in_the_format_are_refused(obj):
    with pytest.raises(CheckpointError, match=r"test_reader_and_writer\.py:\d+: "):
        file_of(obj)


def test_container_that_holds_itself_comes_back():
    inner: dict = {}
    inner["me"] = (inner,)
    again = read(file_of(inner))
    assert again["me"][0] is again
