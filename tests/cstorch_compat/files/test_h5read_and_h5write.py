"""Checkpoint files: the recorded ones read equal, what is written reads back, and damage is always reported."""

import collections
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from functools import partial, reduce
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cstorch_compat.files import h5read, h5write, lz4
from cstorch_compat.files.h5write import ArrayLeaf
from lazytensor.core import dtype as dtypes
from lazytensor.errors import CheckpointError
from tests.cstorch_compat.files.recordings import GOLDEN, Tensor, describe, recorded

RECORDED = sorted(p.stem for p in GOLDEN.glob("*.json") if p.stem != "legacy_v04")
DTYPES = tuple(d for d in dtypes.ALL if d not in (dtypes.int8, dtypes.cbfloat16))
Point = collections.namedtuple("Point", "x y")
NAMES = {"tests.Point": Point}


def make(lazy):
    values = lazy.read()
    assert isinstance(values, np.ndarray) and values.shape == lazy.shape
    assert not lazy.is_tensor or values.dtype == lazy.dtype.host
    return Tensor(values, lazy.dtype) if lazy.is_tensor else values


def ramp(*shape):
    return Tensor(np.arange(math.prod(shape)).reshape(shape), dtypes.float32)


def save(path, tree):
    h5write.write(path, tree, describe, NAMES)
    return path


def load(path, make=make):
    return h5read.read(path, make, NAMES)


def picture(tree, number):
    """All that has to survive, as plain values; `number` tells the objects that can be aliases apart."""
    name = type(tree).__name__
    if isinstance(tree, dict):
        return name, [(repr(key), picture(child, number)) for key, child in tree.items()]
    if isinstance(tree, set):
        return name, sorted(map(repr, tree))
    if isinstance(tree, (list, tuple)):
        return name, [picture(child, number) for child in tree]
    if not isinstance(tree, (Tensor, np.ndarray)):
        return repr(tree)  # tells True from 1 and -0.0 from 0.0, and has NaN equal itself
    values, said = (tree.values, tree.dtype) if isinstance(tree, Tensor) else (tree, None)
    return name, number(id(tree)), said, values.dtype, values.shape, values.tobytes()


@pytest.mark.process
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_file_reads_equal(name):
    saved = recorded(json.loads((GOLDEN / f"{name}.json").read_text())["saved"])
    tree = h5read.read(GOLDEN / f"{name}.mdl", make, pickled=lambda key: "a pickle")
    assert picture(tree, bool) == picture(saved, bool)  # recordings do not tell aliases


@pytest.mark.process
@pytest.mark.parametrize("name", [name for name in RECORDED if name != "numpy"])
def test_rewritten_recorded_file_has_the_same_pieces(name, tmp_path):
    with h5py.File(GOLDEN / f"{name}.mdl") as old, h5py.File(save(tmp_path / "t.mdl", load(old.filename))) as new:
        assert set(old) == set(new)
        for a, b in [(old, new), *((old[key], new[key]) for key in old)]:
            assert isinstance(a, h5py.File) or (a.dtype, a.shape) == (b.dtype, b.shape)
            assert set(a.attrs) == set(b.attrs)
            for attribute, value in a.attrs.items():
                assert repr(b.attrs[attribute]) == repr(value) and type(b.attrs[attribute]) is type(value)
                assert a.attrs.get_id(attribute).get_type() == b.attrs.get_id(attribute).get_type()


@pytest.mark.process
def test_legacy_file_gets_its_nesting_from_its_keys():
    tree = load(GOLDEN / "legacy_v04.mdl")
    model = tree.pop("model")
    assert model["a"].values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert model["b"].dtype is dtypes.bfloat16 and model["b"].values.tolist() == [1, 2]
    number, array = tree.pop("lst")
    assert number == 1 and array.tolist() == [0, 1, 2]
    assert repr(tree) == repr({"lr": 0.5, "name": "abc", "nil": None, "q k/x": True, "step": 12})


@pytest.mark.process
def test_file_of_the_first_releases_gets_its_nesting_and_values(tmp_path):
    """{"a": {"b": 0.1, "c": 0.001}, "d": [0.1, 0.2, 0.3]}, flattened as the releases up to 1.8 describe it."""
    with h5py.File(tmp_path / "t.mdl", "w") as file:
        for key, value in {"a.b": 0.1, "a.c": 0.001, "d.0": 0.1, "d.1": 0.2, "d.2": 0.3}.items():
            file.create_dataset(key, data=value).attrs["is_scalar"] = True
        file.create_dataset("n.none", data=h5py.Empty("f4")).attrs["is_none"] = True
        file.create_dataset("n.text", data="abc").attrs["is_string"] = True
        file.create_dataset("n.object", data=h5py.Empty("f4")).attrs["is_constructible"] = True
        file.create_dataset("m.w", data=np.arange(6, dtype=np.float32).reshape(2, 3))
        file.create_dataset("m.h", data=np.array([0x3F80], np.int16)).attrs["is_bfloat16"] = True
    tree = h5read.read(tmp_path / "t.mdl", make, pickled=lambda key: "a pickle")
    model = tree.pop("m")
    assert model["w"].values.tolist() == [[0, 1, 2], [3, 4, 5]] and model["w"].dtype is dtypes.float32
    assert model["h"].values.tolist() == [1] and model["h"].dtype is dtypes.bfloat16
    assert repr(tree.pop("n")) == repr({"none": None, "object": "a pickle", "text": "abc"})
    assert tree == {"a": {"b": 0.1, "c": 0.001}, "d": [0.1, 0.2, 0.3]}


@pytest.mark.process
def test_pickles_cannot_be_used_and_tuple_keys_are_refused():
    with pytest.raises(CheckpointError, match="'f' is a pickled"):
        load(GOLDEN / "numpy.mdl")["f"].item()
    with pytest.raises(CheckpointError, match="plain dict keys"):
        load(GOLDEN / "tuple_keys.mdl")


values = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=5), st.just(2**70))
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def tensors(draw):
    """Any bits that the type can hold, NaN, infinities and zeros of both signs included."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(shapes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bits = rng.integers(0, 2 if dtype.kind == "b" else 256, (math.prod(shape), dtype.itemsize), np.uint8)
    bits[: len(bits) // 2] &= draw(st.sampled_from([0, 0x80, 0xFF]))
    if dtype is dtypes.bfloat16:
        bits, kind = np.pad(bits, ((0, 0), (2, 0))), np.dtype(np.float32)
    else:
        kind = np.dtype("f2") if dtype is dtypes.float16 else dtype.host
    with np.errstate(invalid="ignore"):  # a signalling NaN is converted
        return Tensor(bits.view(kind).reshape(shape).astype(dtype.host), dtype)


arrays = st.builds(
    lambda kind, shape: np.ones(shape, kind),
    st.sampled_from(["?", "i1", "i8", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]),
    shapes,
)
labels = st.one_of(st.text("abcé_/ ", min_size=1, max_size=3), st.integers(-3, 12))


@st.composite
def trees(draw):
    """Nested containers whose leaves come from a small pool, so that most of them have aliases."""
    pool = draw(st.lists(st.one_of(tensors(), arrays, values), min_size=1, max_size=6))

    def grow(children):
        listed, keyed = st.lists(children, max_size=3), st.dictionaries(labels, children, max_size=3)
        some = listed, listed.map(tuple), keyed, keyed.map(collections.OrderedDict)
        return st.one_of(*some, st.sets(values, max_size=3), st.builds(Point, children, children))

    return draw(st.recursive(st.sampled_from(pool), grow, max_leaves=12))


KEPT, TURNED_AWAY = ("as it was written", ["t.mdl"]), ("refused", [])


def outcome(tree):
    """What becomes of `tree`, written and read, and the files that are left of it."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "t.mdl")
        try:
            save(path, tree)
        except CheckpointError:
            return "refused", os.listdir(directory)
        order = [collections.defaultdict(itertools.count().__next__) for _ in "12"]
        pictures = picture(load(path), order[0].__getitem__), picture(tree, order[1].__getitem__)
        return "as it was written" if pictures[0] == pictures[1] else pictures, os.listdir(directory)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(trees())
def test_any_tree_round_trips(tree):
    end = outcome(tree)
    assume(end != TURNED_AWAY)  # a bare array, and keys like "a" and "a/b" that cannot both be datasets
    assert end == KEPT


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text("./\0\ud800a", max_size=4), st.sampled_from([1, ramp(2)]), min_size=1, max_size=3))
def test_strange_key_is_refused_or_survives(tree):
    assert outcome(tree) in (KEPT, TURNED_AWAY)


def test_written_file_has_every_required_piece(tmp_path):
    shared = ramp(2, 3)
    tree = {"w": shared, "n": {"tied": shared, "lr": 0.1}, "zero": Tensor(1.5, dtypes.bfloat16)}
    with h5py.File(save(tmp_path / "t.mdl", tree)) as file:
        attributes = dict(file.attrs)
        assert attributes.pop("__version__") == 0.5 and file.attrs["__version__"].dtype == np.float64
        assert attributes.pop("__SUCCESS__") is np.True_ and attributes.pop("__cstorch_version__") == "2.10.0"
        outline, described = json.loads(attributes.pop("__spec__"))
        assert outline == {"w": "*", "n": {"tied": "*", "lr": "*"}, "zero": "*"}
        assert json.loads(described)[1]["context"] == '["w", "n", "zero"]'
        assert sorted(attributes) == sorted(f"{key}.__metadata__" for key in ("w", "n.tied", "n.lr", "zero"))
        metadata = json.loads(attributes["w.__metadata__"])
        assert metadata["__objects__"] == ["w"] and metadata["__spec__"][0] == {"w": "*"}
        said = metadata["w.__metadata__"]
        assert (said["shapes"], said["dtypes"], said["rtfx_dtypes"]) == ([[2, 3]], ["torch.float32"], [11])
        assert json.loads(attributes["n.tied.__metadata__"])["n.tied.__metadata__"]["key"] == "w"
        assert sorted(file) == ["w", "zero"] and file["w"].chunks is None and file["w"].attrs["__NUMPY__"]
        assert file["zero"].dtype == np.int16 and file["zero"][()] == 0x3FC0


def test_values_that_need_conversion_are_converted_or_refused(tmp_path):
    hidden = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)  # cutting them would give infinities
    tree = {"f": np.float32(1.5), "d": np.float64(0.1), "i": np.int64(4), "b": np.bool_(True), "s": np.str_("x")}
    loaded = load(save(tmp_path / "t.mdl", {"x": Tensor(hidden, dtypes.bfloat16), **tree}))
    assert np.isnan(loaded.pop("x").values).all()
    assert repr(loaded) == repr({"f": 1.5, "d": 0.1, "i": 4, "b": True, "s": "x"})
    with pytest.raises(CheckpointError, match=r"'a' is declared torch.int32 but its values are int64"):
        h5write.write(tmp_path / "u.mdl", {"a": 1}, lambda leaf: ArrayLeaf(np.ones(1, np.int64), dtypes.int32))


REFUSED = [
    ({"a": [b"bytes"]}, TypeError, "'a.0' is a builtins.bytes"), (ramp(2), TypeError, "without a key"),
    ({"a": collections.defaultdict(list)}, TypeError, "'a' is a collections.defaultdict"),
    ({"a": collections.namedtuple("Unknown", "x")(1)}, TypeError, "'a' is a .*Unknown"),
    ({"a": np.array(["x"])}, TypeError, "'a' is a NumPy array"),
    ({"a": np.ma.masked_array([1])}, TypeError, "'a' is a NumPy array of class MaskedArray"),
    ({"a": Tensor(1, dtypes.int8)}, ValueError, "'a' is a tensor of torch.int8"),
    ({"a": Tensor(1, dtypes.cbfloat16)}, ValueError, "'a' is a tensor of torch.cbfloat16"),
    ({"a": Tensor(np.ones((1,) * 40), dtypes.float32)}, RuntimeError, "'a' .*40 dimensions"),
    ({"a.b": 1, "a": {"b": 2}}, RuntimeError, "would be stored as 'a.b'"), ({"a": 10**5000}, RuntimeError, "'a'"),
    ({"a": ramp(1), "a/b": ramp(1)}, RuntimeError, "'a/b'"), ({"a": {(1, 2): 3}}, RuntimeError, "of type tuple"),
    (reduce(lambda tree, _: [tree], range(5000), 1), RuntimeError, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_stored_is_refused_and_leaves_nothing(tree, error, text, tmp_path):
    with pytest.raises(CheckpointError, match=text) as caught:
        save(tmp_path / "t.mdl", tree)
    assert isinstance(caught.value, error)
    assert list(tmp_path.iterdir()) == []


def test_existing_file_and_missing_directory_are_refused(tmp_path):
    save(tmp_path / "t.mdl", {"a": 1})
    with pytest.raises(CheckpointError, match=r"Checkpoint at '.*t.mdl' already exists\. ") as existing:
        save(tmp_path / "t.mdl", {"a": 2})
    with pytest.raises(CheckpointError, match=r"the directory .* does not exist") as missing:
        save(tmp_path / "no" / "t.mdl", {"a": 2})
    assert isinstance(existing.value, FileExistsError) and isinstance(missing.value, FileNotFoundError)
    assert load(tmp_path / "t.mdl") == {"a": 1}


def test_failing_value_leaves_nothing_and_keeps_its_own_error(tmp_path):
    def fail():
        assert [p.suffix for p in tmp_path.iterdir()] == [".tmp"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        h5write.write(tmp_path / "t.mdl", {"a": 1, "b": ()}, lambda leaf: ArrayLeaf(fail, dtypes.float32))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_killed_writer_leaves_nothing_under_the_name(tmp_path):
    program = f"""
import os, signal, numpy
from cstorch_compat.files import h5write
from lazytensor.core import dtype
def describe(leaf):
    die = lambda: os.kill(os.getpid(), signal.SIGKILL)
    return h5write.ArrayLeaf(die if leaf else numpy.ones(1000, numpy.float32), dtype.float32)
h5write.write({str(tmp_path / "t.mdl")!r}, {{"a": 0, "b": 1}}, describe)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    assert subprocess.run([sys.executable, "-c", program], check=False, env=environment).returncode == -signal.SIGKILL
    (rest,) = tmp_path.iterdir()
    assert rest.name.startswith("t.mdl.") and rest.suffix == ".tmp"
    with pytest.raises(CheckpointError):
        load(rest)


@pytest.mark.parametrize("change", ["delete", "replace", "cut"])
def test_lazy_array_survives_deletion_and_replacement(change, tmp_path):
    path = save(tmp_path / "t.mdl", {"a": ramp(3, 2)})
    lazy = load(path, lambda lazy: lazy)["a"]
    if change == "cut":
        os.truncate(path, 100)
        with pytest.raises(CheckpointError, match=r"'a' cannot be read: .*shorter"):
            lazy.read()
        return
    path.unlink()
    if change == "replace":
        save(path, {"a": Tensor(np.zeros((3, 2)), dtypes.float32)})
    first, second = lazy.read(), lazy.read()
    first += 1  # its own memory
    assert second.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_file_is_closed_with_the_last_lazy_array(tmp_path):
    path, before = save(tmp_path / "t.mdl", {"a": ramp(3), "b": ramp(2)}), len(os.listdir("/dev/fd"))
    tree = load(path, lambda lazy: lazy)
    del tree["a"]
    assert len(os.listdir("/dev/fd")) == before + 1 and tree["b"].read().tolist() == [0, 1]
    del tree
    assert len(os.listdir("/dev/fd")) == before


def copied(name, directory):
    path = Path(directory) / "t.mdl"
    path.write_bytes((GOLDEN / f"{name}.mdl").read_bytes())
    return path


@pytest.mark.process
@pytest.mark.parametrize("content", [b"", b"hello world", b"\x89HDF\r\n\x1a\n"])
def test_other_files_fail_to_load(content, tmp_path):
    path = tmp_path / "bad.mdl"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"Failed to load checkpoint file `.*bad.mdl`\.") as caught:
        load(path)
    assert len(content) == 8 or repr(caught.value.__cause__) == repr(ValueError(f"{path} is not an HDF5 file"))


@pytest.mark.process
def test_missing_and_foreign_files_have_their_errors(tmp_path):
    with pytest.raises(CheckpointError, match=r"nope\.mdl does not exist") as missing:
        load(tmp_path / "nope.mdl")
    with h5py.File(tmp_path / "p.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(CheckpointError, match="'__version__'") as foreign:
        load(tmp_path / "p.h5")
    assert isinstance(missing.value, FileNotFoundError) and isinstance(foreign.value, KeyError)


@pytest.mark.process
@pytest.mark.parametrize("change", [lambda a: a.modify("__SUCCESS__", False), lambda a: a.pop("__SUCCESS__")])
def test_partially_written_file_is_refused(change, tmp_path):
    path = edited(save(tmp_path / "t.mdl", {"x": 1}), lambda file, _: change(file.attrs))
    with pytest.raises(CheckpointError, match="Cannot load partially written checkpoint at "):
        load(path)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(["aliases", "written"]), st.floats(0, 1, exclude_max=True))
def test_truncated_file_is_always_refused(name, part):
    with tempfile.TemporaryDirectory() as directory:
        tree = {"a": ramp(30, 20), "b": [ramp(5), 1, "s"]}
        path = save(Path(directory) / "t.mdl", tree) if name == "written" else copied(name, directory)
        size = int(part * path.stat().st_size)
        # Cut where its checksums begin a file is whole, and one without checksums.
        assume(not path.read_bytes()[size:].startswith(b'{"size":'))
        os.truncate(path, size)
        with pytest.raises(CheckpointError):
            load(path)


def packed(plain, block=1 << 20):
    """A chunk as the filter would store it, every block as literals."""
    blocks = [plain[i : i + block] for i in range(0, len(plain), block)]
    return lz4._FRAME_HEADER.pack(len(plain), block) + b"".join(len(b).to_bytes(4, "big") + b for b in blocks)


def rewrite_chunk(path, data, mask=0):
    with h5py.File(path, "r+") as file:
        file["x"].id.write_direct_chunk((0, 0), data, mask)
    return load(path, lambda lazy: lazy)["x"]


@pytest.mark.process
def test_chunk_may_be_packed_in_blocks_or_skip_the_filter(tmp_path):
    path, plain = copied("dtype_float32", tmp_path), np.arange(12, dtype="<f4").tobytes()
    assert rewrite_chunk(path, packed(plain, 20)).read().tobytes() == plain
    assert rewrite_chunk(path, plain, mask=1).read().tobytes() == plain


PLAIN = packed(bytes(48))
DAMAGED = [
    PLAIN[:11], PLAIN[:-1], PLAIN + b"x", packed(bytes(52)), packed(b""), PLAIN.replace(b"\x00\x10\x00\x00", bytes(4)),
    lz4._FRAME_HEADER.pack(48, 48) + (3).to_bytes(4, "big") + b"\x1fa\x01",
]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(("data", "mask"), [*((data, 0) for data in DAMAGED), (bytes(40), 1)])
def test_damaged_chunk_is_an_error_with_its_key(data, mask, tmp_path):
    with pytest.raises(CheckpointError, match="'x' cannot be read: "):
        rewrite_chunk(copied("dtype_float32", tmp_path), data, mask).read()


def edited(path, change):
    """The file at `path` after `change` of its HDF5 handle and of the description of x."""
    with h5py.File(path, "r+") as file:
        metadata = json.loads(file.attrs["x.__metadata__"])
        change(file, metadata["x.__metadata__"])
        file.attrs["x.__metadata__"] = json.dumps(metadata)
    return path


def restore(stored, file, metadata):
    """Put another dataset, or something that is none, under the name of x."""
    attributes = dict(file.pop("x").attrs)
    if isinstance(stored, dict):
        file.create_dataset("x", **stored).attrs.update(attributes)
        metadata["shapes"] = [list(stored.get("shape", (4,)))]
    elif stored == "group":
        file.create_group("x")
    elif stored == "link":
        other = Path(file.filename).parent / "other.mdl"
        file["x"] = h5py.ExternalLink(save(other, {"x": ramp(4)}).name, "x")


FULL = {"__TYPE__": "DeferredFullTensor", "dtype": "torch.uint8"}
SAID = [  # what the description of a float32[4] says instead
    {"shapes": [[5]]}, {"shapes": [[-4]]}, {"shapes": [["4"]]}, {"shapes": 4}, {"dtypes": ["torch.int32"]},
    {"dtypes": ["torch.int8"]}, {"__TYPE__": "Other"},
    {"__TYPE__": "LinkedObject", "key": "y"}, {"__TYPE__": "LinkedObject", "key": "x"},
    {"__TYPE__": "ScalarSerializer"}, {"__TYPE__": "ScalarSerializer", "scalar_value": [1]},
    {**FULL, "shape": [2**40, 2**40], "fill_value": 0}, {**FULL, "shape": [2], "fill_value": 300},
]  # fmt: skip
NO_SHAPES = [None, 3, "", "22", {}, [True], [2.0], [-1], [None], [1] * 33]
HUGE = {"shape": (2**40,), "dtype": "f4"}
STORED = [  # the dataset that is there instead
    HUGE, {**HUGE, "chunks": (4,)}, {"data": np.ones(5, np.float32)}, {"data": ["a", "b", "c", "d"]},
    {"data": np.ones(4, np.float32), "compression": "gzip"},
    {"shape": (4,), "dtype": "f4", "external": [("/dev/zero", 0, 16)]},
]  # fmt: skip


WRONG = [partial(lambda said, file, meta: meta.update(said), said) for said in SAID]
WRONG += [partial(restore, stored) for stored in (None, "group", "link", *STORED)]


@pytest.mark.process
@pytest.mark.parametrize("change", WRONG, ids=range(len(WRONG)))
def test_contradictory_file_is_refused_by_key(change, tmp_path):
    path = edited(save(tmp_path / "t.mdl", {"x": ramp(4)}), change)
    with pytest.raises(CheckpointError, match="'x'"):
        h5read.read(path, lambda lazy: lazy.read())


@pytest.mark.process
@pytest.mark.parametrize("shape", NO_SHAPES, ids=range(len(NO_SHAPES)))
def test_shape_that_is_no_list_of_sizes_is_named_in_the_error(shape, tmp_path):
    for said in ({"shapes": [shape]}, {**FULL, "shape": shape, "fill_value": 0}):
        path = edited(save(tmp_path / "t.mdl", {"x": ramp(4)}), lambda _, meta, said=said: meta.update(said))
        with pytest.raises(CheckpointError, match=re.escape(f"{shape!r} is not a shape")):
            h5read.read(path, lambda lazy: lazy.read())
        path.unlink()


LEAF = '{"type": null, "context": null, "children_spec": []}'
NODES = [
    ("null", "null"), ('"os.system"', '"null"'), ('"builtins.dict"', '"[\\"x\\"]"'), ('"builtins.dict"', "3"),
    ('"builtins.dict"', '"[\\"x\\", \\"x\\"]"'), ('"collections.namedtuple"', '"Nobody"'),
]  # fmt: skip
PARTS = ["[2, {}]", "[1, {}]"]
PARTS += [f'[1, {{"type": {kind}, "context": {c}, "children_spec": [{LEAF}, {LEAF}]}}]' for kind, c in NODES]
SPECS = ["", "[]", "nonsense", "[1, 2]", "[" * 100000, *(json.dumps([None, part]) for part in PARTS)]


@pytest.mark.process
@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
def test_malformed_tree_description_is_refused(spec, tmp_path):
    path = edited(save(tmp_path / "t.mdl", {"x": 1}), lambda file, _: file.attrs.modify("__spec__", spec))
    with pytest.raises(CheckpointError):
        load(path)


@pytest.mark.process
def test_array_that_was_never_computed_is_filled(tmp_path):
    full = {"shape": [2, 2], "dtype": "torch.bfloat16", "fill_value": 2.5, "__TYPE__": "DeferredFullTensor"}
    metadata = {"__objects__": ["x.0"], "x.0.__metadata__": full, "x.1.__metadata__": {"__TORCH__": True}}
    path = save(tmp_path / "t.mdl", {"x": 1})
    with h5py.File(path, "r+") as file:
        file.attrs["x.__metadata__"] = json.dumps(metadata)
    assert picture(load(path)["x"], bool) == picture(Tensor(np.full((2, 2), 2.5), dtypes.bfloat16), bool)


@pytest.mark.process
def test_attribute_that_is_no_text_or_number_is_never_read(tmp_path):
    path = save(tmp_path / "t.mdl", {"x": 1})
    with h5py.File(path, "r+") as file:
        lengths = np.empty(1, object)
        lengths[0] = np.ones(3, np.int32)
        file.attrs.create("extra", lengths, dtype=h5py.vlen_dtype(np.int32))
        assert "extra" in file.attrs and "extra" not in lz4.read_attributes(file)
    assert load(path) == {"x": 1}


WELL_FORMED = [  # literals; a match that runs into itself; one that does not; long lengths; nothing
    (b"\x30abc", b"abc"), (b"\x20ab\x02\x00\x10c", b"ababab" + b"c"), (b"\x40abcd\x04\x00\x00", b"abcdabcd"),
    (b"\x1fa\x01\x00\xff\x02\x20bc", b"a" * 277 + b"bc"), (b"\xf0\xff\x01" + b"z" * 271, b"z" * 271), (b"\x00", b""),
]  # fmt: skip


def test_a_chunk_of_a_million_blocks_is_refused_at_once():
    with pytest.raises(CheckpointError, match="block size of 1 bytes is too small"):
        lz4.decode_chunk(packed(bytes(1 << 16), 1), 1 << 16)


@pytest.mark.parametrize(("block", "plain"), WELL_FORMED, ids=range(len(WELL_FORMED)))
def test_lz4_block_decodes_up_to_its_bound(block, plain):
    assert lz4.decode_block(block, len(plain)) == plain
    with pytest.raises(CheckpointError):
        lz4.decode_block(block, len(plain) - 1)


MALFORMED = [
    (b"", "last literals"), (b"\x10", "literals extend beyond"), (b"\xf0\xff", "inside a length"),
    (b"\x10a\x01", "inside an offset"), (b"\x10a\x01\x00", "last literals"), (b"\x1fa\x01\x00\xff", "inside a length"),
    (b"\x10a\x00\x00\x00", "refers back 0"), (b"\x10a\x02\x00\x00", "refers back 2"),
    (b"\x1fa\x01\x00" + b"\xff" * 100 + b"\x00\x00", "more than"),
]  # fmt: skip


@pytest.mark.parametrize(("block", "text"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_lz4_block_is_refused(block, text):
    with pytest.raises(CheckpointError, match=text):
        lz4.decode_block(block, 1000)
