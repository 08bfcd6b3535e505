"""`tensorflow-to-h5` and `h5-to-tensorflow`: which variable becomes what, on plain arrays, and the error without it."""

import math
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.ckpt import tf_saver
from cstorch_compat.ckpt.formats import FORMATS, read
from cstorch_compat.ckpt.tf_saver import SaverVariable, collect_variables, make_lazy_arrays
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import CheckpointError
from tests.conftest import ROOT

cstorch = get_mirror("cerebras.pytorch")


# TensorFlow's names of types, and NumPy's.
KINDS = {"float32": "f4", "float64": "f8", "float16": "f2", "int64": "i8", "int32": "i4", "int16": "i2", "uint8": "u1"}
KINDS |= {"bool": "?", "complex64": "c8", "uint64": "u8"}


@st.composite
def variables(draw):
    """Variables of any type that H5 holds, under names of a graph, with arbitrary bits."""
    found = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from([*KINDS, "bfloat16"]), max_size=4))):
        shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
        item = np.dtype(KINDS.get(kind, "u2"))
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        raw = rng.integers(0, 2 if kind == "bool" else 256, math.prod(shape) * item.itemsize, np.uint8)
        values = raw.view(item).reshape(shape)
        found.append(SaverVariable(f"layer_{number}/kernel", shape, kind, values.copy))
    return found


@settings(max_examples=40, deadline=None)
@given(variables())
def test_variables_of_numbers_go_to_h5_and_back_bit_for_bit(given):
    arrays, others = make_lazy_arrays(given, "a saver")
    assert not others and list(arrays) == [v.name for v in given]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "t.h5")
        FORMATS["h5"].write(path, arrays, replace=False)
        back, bits = collect_variables(read(path)[1])
    assert bits == [v.name for v in given if v.kind == "bfloat16"]
    for v in given:
        assert back[v.name].shape == v.shape and back[v.name].tobytes() == v.read().tobytes()
        assert back[v.name].dtype == np.dtype(KINDS.get(v.kind, "u2"))


def test_texts_and_resources_are_left_out_by_name():
    kinds = {"graph": "string", "table": "resource", "quantized": "qint8", "w": "float32"}
    given = [SaverVariable(name, (), kind, lambda: np.ones((), "f4")) for name, kind in kinds.items()]
    arrays, others = make_lazy_arrays(given, "a saver")
    assert list(arrays) == ["w"] and others == ["graph", "quantized", "table"]


def test_state_dict_becomes_variables_of_dotted_names(tmp_path):
    state = {"model": {"w": lt.ones(2, 2), "h": lt.ones(3).bfloat16()}, "step": 3, "lr": 0.5, "on": True}
    cstorch.save(state, tmp_path / "t.mdl")
    arrays, bits = collect_variables(read(str(tmp_path / "t.mdl"))[1])
    told = {name: (a.dtype.str, a.shape) for name, a in arrays.items()}
    assert told == {"model.w": ("<f4", (2, 2)), "model.h": ("<u2", (3,)), "step": ("<i8", ()), "lr": ("<f8", ()),
                    "on": ("|b1", ())}  # fmt: skip
    assert bits == ["model.h"] and arrays["model.h"].tolist() == [0x3F80] * 3
    for name, value in {"none": None, "name": "x", "big": 2**70}.items():
        with pytest.raises(CheckpointError, match=rf"'opt\.{name}' is"):
            collect_variables({"opt": {name: value}})


class Recorder:
    """A saver that keeps what it is given."""

    def write(self, path, arrays, bfloat16):
        self.written = path, arrays, bfloat16


def test_existing_checkpoint_of_the_saver_is_not_overwritten(tmp_path):
    cstorch.save({"w": lt.ones(2)}, tmp_path / "t.mdl")
    saver = Recorder()
    tf_saver.h5_to_saver(saver, str(tmp_path / "t.mdl"), str(tmp_path / "model.ckpt-1"))
    assert saver.written[0].endswith("model.ckpt-1") and saver.written[1]["w"].tolist() == [1, 1]
    (tmp_path / "model.ckpt-1.index").touch()
    with pytest.raises(FileExistsError, match=r"model\.ckpt-1\.index exists already"):
        tf_saver.h5_to_saver(saver, str(tmp_path / "t.mdl"), str(tmp_path / "model.ckpt-1"))


def test_a_checkpoint_is_written_in_parts_by_the_names_of_weights(tmp_path, monkeypatch):
    cstorch.save({"model": {"a": lt.ones(2), "b": lt.zeros(3)}, "step": 4}, tmp_path / "t.mdl")
    saver = Recorder()
    monkeypatch.setattr(tf_saver, "TensorFlowSaver", lambda: saver)
    module = get_mirror("cerebras_tensorflow.saver.tf_h5_saver")
    for names in (["model.b"], ["step", "model.a"]):
        module.h5_to_saver(tmp_path / "t.mdl", tmp_path / "part", names)
        assert list(saver.written[1]) == names
    module.h5_to_saver(tmp_path / "t.mdl", tmp_path / "whole")
    assert sorted(saver.written[1]) == ["model.a", "model.b", "step"]
    with pytest.raises(CheckpointError, match="'c'"):
        module.h5_to_saver(tmp_path / "t.mdl", tmp_path / "part", ["c"])


def test_the_module_of_the_page_is_imported_as_it_says(script):
    done = script(
        """
        from cerebras_tensorflow.saver import tf_h5_saver
        import sys
        sys.modules["tensorflow"] = None
        for convert in (tf_h5_saver.saver_to_h5, tf_h5_saver.h5_to_saver):
            try:
                convert("a", "b")
            except NotImplementedError as e:
                print("pip install lazywafer[tensorflow]" in str(e))
        """,
        preamble="",
    )
    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.parametrize("program", ["tensorflow-to-h5", "h5-to-tensorflow"])
def test_program_without_tensorflow_names_the_extra(program, monkeypatch, capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "tensorflow" in project["optional-dependencies"]
    module, _, name = project["scripts"][program].partition(":")
    assert module == tf_saver.__name__
    monkeypatch.setitem(tf_saver.sys.modules, "tensorflow", None)  # as if it were not installed
    assert getattr(tf_saver, name)(["from", "to"]) == 2
    assert "pip install lazywafer[tensorflow]" in capsys.readouterr().err
