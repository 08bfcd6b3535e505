"""`lazywafer ckpt`: what it prints, that conversion keeps every bit, and what it refuses."""

import gc
import json
import math
import os
import tempfile
import tracemalloc
from collections import OrderedDict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.__main__ import main
from cstorch_compat.ckpt.compare import find_differences
from cstorch_compat.ckpt.convert import convert
from cstorch_compat.ckpt.formats import FORMATS, read
from cstorch_compat.ckpt.leaves import flatten_tree, leaves
from lazytensor import serialization
from lazytensor.core import dtype as dtypes
from lazytensor.core.element_bytes import FILE_DTYPES
from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError
from tests.conftest import lazywafer
from tests.cstorch_compat.files.recordings import GOLDEN

SUFFIX = {name: f.suffixes[0] for name, f in FORMATS.items()}
# Every format holds these: H5 has no int8.
COMMON = sorted(set(FILE_DTYPES) - {dtypes.int8, dtypes.cbfloat16}, key=lambda d: d.name)


def array(values, dtype):
    """A tensor of a tree, from its elements as files hold them."""
    values = np.asarray(values, FILE_DTYPES[dtype])
    return LazyArray("?", values.shape, dtype, FILE_DTYPES[dtype], True, "memory", values.copy)


def ramp(*shape, dtype=dtypes.float32):
    return array(np.arange(math.prod(shape)).reshape(shape), dtype)


def put(tree, path):
    """Write a tree in the format of the path's suffix."""
    name = next(name for name, suffix in SUFFIX.items() if suffix == path.suffix)
    FORMATS[name].write(str(path), tree, replace=False)
    return str(path)


def change(source, target, to=None, key=None, flatten=False, force=False):
    return convert(str(source), str(target), to=to, key=key, flatten=flatten, force=force)


def picture(tree):
    """All that conversion has to keep, arrays as their bits."""
    if isinstance(tree, LazyArray):
        return tree.dtype, tree.shape, tree.stored().tobytes()
    if isinstance(tree, dict):
        return type(tree), [(repr(key), picture(child)) for key, child in tree.items()]
    if isinstance(tree, list | tuple):
        return type(tree), [picture(child) for child in tree]
    return repr(tree)


@st.composite
def arrays(draw):
    """Any bits of any type, NaN with payloads included."""
    dtype = draw(st.sampled_from(COMMON))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    raw = rng.integers(0, 2 if dtype.kind == "b" else 256, math.prod(shape) * FILE_DTYPES[dtype].itemsize, np.uint8)
    return array(raw.view(FILE_DTYPES[dtype]).reshape(shape), dtype)


names = st.text("abcé.7_ ", min_size=1, max_size=4)
values = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text("abé", max_size=4)
trees = st.dictionaries(
    names | st.integers(0, 20),
    st.recursive(
        arrays() | values,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(names | st.integers(0, 20), inner, max_size=3)
            | st.dictionaries(names, inner, max_size=3).map(OrderedDict)
        ),
        max_leaves=6,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=30, deadline=None)
@given(trees)
def test_any_tree_keeps_its_bits_between_h5_and_pytorch_files(tree):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            put(tree, folder / "a.mdl")
        except CheckpointError:
            return  # keys that collide once they are joined by dots
        change(folder / "a.mdl", folder / "b.pt")
        change(folder / "b.pt", folder / "c.mdl")
        assert picture(read(str(folder / "b.pt"))[1]) == picture(tree)
        assert picture(read(str(folder / "c.mdl"))[1]) == picture(tree)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(names, arrays(), max_size=4), st.permutations(sorted(FORMATS)))
def test_a_dict_of_arrays_keeps_its_bits_through_all_formats(tree, order):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"0{SUFFIX[order[0]]}"
        try:
            put(tree, path)
            for i, kind in enumerate(order[1:], 1):
                target = Path(name) / f"{i}{SUFFIX[kind]}"
                change(path, target)
                path = target
                assert picture(read(str(path))[1]) == picture(tree)
        except CheckpointError as e:
            assert "cannot" in e.what or "both" in e.what  # "." and "a.b" beside "a" are no names in HDF5


def test_file_written_by_pytorch_keeps_views_ties_and_bits(tmp_path):
    source = GOLDEN.parent / "torch_saved.pt"
    loaded, lazy = serialization.load(source), read(str(source))[1]
    wanted = {key: t for key, t in leaves(loaded) if isinstance(t, serialization.writer.Tensor)}
    assert wanted
    for key, leaf in leaves(lazy):
        if key in wanted:
            assert leaf.key == key or leaf is dict(leaves(lazy))[leaf.key]
            assert leaf.read().tobytes() == np.ascontiguousarray(wanted[key].array()).tobytes()


def test_tied_arrays_stay_tied_in_h5_and_pytorch_files(tmp_path):
    tied = ramp(2, 3)
    path = put({"a": tied, "n": [tied, ramp(2, 3)]}, tmp_path / "a.mdl")
    change(path, tmp_path / "b.pt")
    for name in ("a.mdl", "b.pt"):
        tree = read(str(tmp_path / name))[1]
        assert tree["a"] is tree["n"][0] and tree["a"] is not tree["n"][1]


@pytest.mark.slow
@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("second", FORMATS)
def test_conversion_holds_one_tensor_at_a_time(first, second, tmp_path):
    size, count = 1 << 21, 10
    load = partial(np.full, size // 4, 1.5, "<f4")
    tree = {
        f"t{i}": LazyArray("?", (size // 4,), dtypes.float32, np.dtype("<f4"), True, "", load) for i in range(count)
    }
    source = put(tree, tmp_path / f"a{SUFFIX[first]}")
    gc.collect()
    tracemalloc.start()
    try:
        change(source, tmp_path / f"b{SUFFIX[second]}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * size


NESTED = {
    "model": OrderedDict(w=ramp(2), h=ramp(3, dtype=dtypes.bfloat16)),
    "opt": {"lr": 0.1, "s": {0: {"m": ramp(1)}}},
}
REFUSED = [  # what is converted to where, and what the error says
    ({}, ".safetensors", {}, "only arrays, not 'opt.lr'.*--key model"),
    ({"key": "opt.s"}, ".npz", {}, "no nested values.*'0'.*--flatten"),
    ({"key": "model.w"}, ".npz", {}, "contain a dict of arrays, not a LazyArray"),
    ({"key": "modle"}, ".pt", {}, "has no value 'modle'.*Did you mean model"),
    ({}, ".xyz", {}, "has no suffix of a known format.*--to"),
    ({}, ".mdl", {"i": ramp(2, dtype=dtypes.int8)}, "'i' is a tensor of torch.int8"),
    ({"flatten": True}, ".npz", {"a.b": ramp(1), "a": {"b": ramp(2)}}, "would have the name 'a.b'"),
    ({}, ".npz", {"a\0b": ramp(1)}, "not a valid name in a file"),
    ({}, ".safetensors", {"__metadata__": ramp(1)}, "cannot have the name '__metadata__'"),
]


@pytest.mark.parametrize("options, suffix, tree, words", REFUSED)
def test_what_the_target_cannot_hold_is_refused_and_leaves_nothing(options, suffix, tree, words, tmp_path):
    tree = tree or NESTED
    source = put(tree, tmp_path / "a.pt")
    with pytest.raises(CheckpointError) as caught:
        change(source, tmp_path / f"out{suffix}", **options)
    pattern_of(words, str(caught.value))
    assert [p.stem for p in tmp_path.iterdir()] == ["a"]


def pattern_of(words, text):
    at = 0
    for part in words.split(".*"):
        assert part in text[at:], text
        at = text.index(part, at) + len(part)


def test_part_and_flattening_make_what_flat_formats_hold(tmp_path):
    source = put(NESTED, tmp_path / "a.mdl")
    change(source, tmp_path / "m.safetensors", key="model")
    change(source, tmp_path / "s.npz", key="opt.s", flatten=True)
    assert list(read(str(tmp_path / "m.safetensors"))[1]) == ["w", "h"]
    assert list(np.load(tmp_path / "s.npz")) == ["0.m"]
    assert list(flatten_tree(NESTED)) == ["model.w", "model.h", "opt.lr", "opt.s.0.m"]


def test_existing_target_is_replaced_only_by_force_even_the_source_itself(tmp_path):
    source = put({"a": ramp(2)}, tmp_path / "a.pt")
    put({"old": ramp(1)}, tmp_path / "b.npz")
    with pytest.raises(FileExistsError, match="--force"):
        change(source, tmp_path / "b.npz")
    assert list(read(str(tmp_path / "b.npz"))[1]) == ["old"]
    change(source, tmp_path / "b.npz", force=True)
    assert list(read(str(tmp_path / "b.npz"))[1]) == ["a"]
    change(tmp_path / "b.npz", tmp_path / "b.npz", force=True)
    assert read(str(tmp_path / "b.npz"))[1]["a"].read().tolist() == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_arrays_of_a_file_outlive_it_and_then_close_it(name, tmp_path):
    path = put({"a": ramp(3), "b": ramp(2)}, tmp_path / f"t{SUFFIX[name]}")
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    tree = read(path)[1]
    Path(path).unlink()
    del tree["a"]
    assert tree["b"].read().tolist() == [0, 1] and len(os.listdir("/dev/fd")) == before + 1
    del tree
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


def test_npz_of_numpy_is_read_whatever_its_order_and_compression(tmp_path):
    wanted = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.arange(3, dtype=">i4"),
        "z": np.ones((0, 2)),
    }
    wanted |= {"u": np.arange(3, dtype="u8"), "c": np.ones(2, "c8"), "t": np.array(True)}
    np.savez_compressed(tmp_path / "a.npz", **wanted)
    found = read(str(tmp_path / "a.npz"))[1]
    for key, values in wanted.items():
        assert np.array_equal(found[key].read(), values) and found[key].packing == "deflate"
    np.savez(tmp_path / "o.npz", text=np.array(["x"]))
    with pytest.raises(CheckpointError, match=r"'text' cannot be read: its dtype <U1 is not numeric"):
        read(str(tmp_path / "o.npz"))


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The bytes of small files of every format that is a zip archive."""
    folder = tmp_path_factory.mktemp("archives")
    for suffix in (".pt", ".npz"):
        put({"a": ramp(3, 2), "b": ramp(4, dtype=dtypes.bfloat16)}, folder / f"a{suffix}")
    np.savez_compressed(folder / "z.npz", a=np.arange(100.0), b=np.ones((2, 3), order="F"))
    return [path.read_bytes() for path in sorted(folder.iterdir())]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_of_an_archive_gives_anything_but_values_or_our_error(archives, data):
    raw = bytearray(data.draw(st.sampled_from(archives)))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)):
        raw[at] = byte
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw) - 1, len(raw) // 2]))])
        try:
            for _, leaf in leaves(read(str(path))[1]):
                if isinstance(leaf, LazyArray):
                    leaf.read()
        except CheckpointError:
            pass


def test_archive_of_a_later_zip_is_refused(archives, tmp_path):
    raw = bytearray(archives[0])
    raw[raw.rindex(b"PK\x01\x02") + 6] = 128  # the version that is needed to read an entry
    (tmp_path / "x.pt").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"zip file version 12\.8"):
        read(str(tmp_path / "x.pt"))


def run(capsys, *args):
    """The exit status and the output of the command line."""
    status = main(["ckpt", *map(str, args)])
    done = capsys.readouterr()
    return status, done.out, done.err


@pytest.mark.process
def test_ls_tells_names_types_sizes_and_packing(capsys):
    status, out, _ = run(capsys, "ls", GOLDEN / "aliases.mdl")
    assert status == 0
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert lines["a"] == ["float32", "[3,", "3]", "36", "bytes", "lz4"] and lines["b"] == ["same", "as", "a"]
    status, out, _ = run(capsys, "ls", "--json", GOLDEN / "scalars.mdl")
    told = json.loads(out)
    assert told["format"] == "h5" and {"float", "int", "bool", "str", "NoneType", "link"} >= {
        v["type"] for v in told["values"]
    }


@pytest.mark.process
def test_legacy_files_of_flattened_keys_are_listed_and_converted(capsys, tmp_path):
    status, out, _ = run(capsys, "ls", GOLDEN / "legacy_v04.mdl")
    assert status == 0 and "model.b  bfloat16" in out and "lst.0" in out
    assert run(capsys, "convert", GOLDEN / "legacy_v04.mdl", tmp_path / "new.mdl")[0] == 0
    assert run(capsys, "diff", GOLDEN / "legacy_v04.mdl", tmp_path / "new.mdl")[0] == 0


def test_show_summarizes_arrays_and_gives_scalars_whole(capsys, tmp_path):
    values = array([1.0, np.nan, np.inf, -3.0, *[0.5] * 10], dtypes.float32)
    path = put({"m": {"x": values, "s": "text" * 50}, "e": array(np.ones((0, 2)), dtypes.float64)}, tmp_path / "a.mdl")
    out = run(capsys, "show", path, "m.x")[1]
    assert [line.split() for line in out.splitlines()[1:6]] == [
        ["min", "-3.0"],
        ["max", "1.0"],
        ["mean", str(3 / 12)],
        ["nan", "1"],
        ["inf", "1"],
    ]
    assert "text" * 50 in run(capsys, "show", path, "m.s")[1]
    assert run(capsys, "show", path, "e")[0] == 0
    assert run(capsys, "show", path, "m")[1].splitlines()[0] == "m.x float32[14]"
    status, _, err = run(capsys, "show", path, "m.y")
    assert status == 2 and "Did you mean m.x" in err


def test_diff_tells_every_kind_of_difference_and_its_size(capsys, tmp_path):
    a = {"w": array([1.0, 2.0, np.nan], dtypes.float32), "s": 1, "n": 0.5, "t": ramp(2), "d": ramp(2), "gone": None}
    b = {"w": array([1.0, 2.5, np.nan], dtypes.float32), "s": 2, "n": 0.5, "t": ramp(3), "new": True}
    b["d"] = ramp(2, dtype=dtypes.int32)
    paths = put(a, tmp_path / "a.mdl"), put(b, tmp_path / "b.pt")
    status, out, _ = run(capsys, "diff", *paths, "--json")
    told = {d["key"]: d for d in json.loads(out)["differences"]}
    assert status == 1 and {key: d["kind"] for key, d in told.items()} == {
        "gone": "only in a", "new": "only in b", "w": "value", "s": "value", "t": "shape", "d": "dtype"
    }  # fmt: skip
    assert told["w"]["max_abs"] == 0.5 and told["w"]["max_rel"] == 0.2 and (told["w"]["a"], told["w"]["b"]) == (2, 2.5)
    assert "w: value: 2.0 and 2.5, differs by up to 0.5, relative 0.2" in run(capsys, "diff", *paths)[1]
    small = {"w": a["w"]}, {"w": b["w"]}
    assert (
        find_differences(*small, atol=0.49)
        and not find_differences(*small, atol=0.5)
        and not find_differences(*small, rtol=0.2)
    )
    assert run(capsys, "diff", paths[0], paths[0])[:2] == (0, "equal\n")
    assert run(capsys, "diff", "--key", "n", *paths)[:2] == (0, "equal\n")
    assert run(capsys, "diff", "--key", "s", *paths)[0] == 1
    assert run(capsys, "diff", "--key", "gone", *paths)[0] == 2


def test_nan_against_a_number_is_an_infinite_difference(capsys, tmp_path):
    paths = [put({"w": array([0.0, x], dtypes.float32)}, tmp_path / f"{x}.mdl") for x in (np.nan, 1.0)]
    (found,) = json.loads(run(capsys, "diff", *paths, "--json")[1])["differences"]
    assert (found["kind"], found["a"], found["b"]) == ("value", "nan", 1.0)
    assert (found["max_abs"], found["max_rel"]) == ("inf", "inf")


def test_errors_end_with_status_2_and_the_file(capsys, tmp_path):
    (tmp_path / "junk.pt").write_text("hello world")
    for args in (("ls", tmp_path / "junk.pt"), ("ls", tmp_path / "none.pt"), ("convert", tmp_path, tmp_path / "o.pt")):
        status, out, err = run(capsys, *args)
        assert status == 2 and not out and str(args[1]) in err and err.startswith("lazywafer: ")


def test_tools_refuse_what_is_small_in_the_file_and_endless_to_walk(capsys, tmp_path):
    value = 1
    for _ in range(60):
        value = (value, value)
    serialization.save({"a": value}, tmp_path / "shared.pt")
    path = tmp_path / "shared.pt"
    assert path.stat().st_size < 2000
    for args in (("ls", path), ("diff", path, path), ("convert", path, tmp_path / "o.h5"), ("show", path, "a")):
        status, _, err = run(capsys, *args)
        assert status == 2 and "values, or contains itself" in err


def test_what_a_file_shares_often_is_listed_each_time(capsys, tmp_path):
    serialization.save({str(i): [(1, 2)] * 3 for i in range(4)}, tmp_path / "a.pt")
    assert "24 values" in run(capsys, "ls", tmp_path / "a.pt")[1]


def test_command_line_is_there(tmp_path):
    put({"a": ramp(2)}, tmp_path / "a.pt")
    done = lazywafer("ckpt", "convert", "a.pt", "b.safetensors", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "b.safetensors: safetensors\n"), done.stderr
