"""Workers find modules in the folders of `python_paths`, and the client does not."""

import importlib
import multiprocessing
import os
import subprocess
import sys

import pytest

from lazytensor.functional import creation
from tests.cstorch_compat.cerebras.pytorch.utils.data.test_batch_stream import BATCH, csx, distributed, read

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the input functions here are made to be forked"),
]


@pytest.fixture
def folder_of_module(tmp_path):
    (tmp_path / "only_for_workers.py").write_text("VALUE = 7.0\n")
    yield tmp_path
    sys.modules.pop("only_for_workers", None)


def imports_where_it_streams():
    if not distributed.is_streamer():
        return [creation.zeros(BATCH)]
    started = [sys.executable, "-c", "import only_for_workers; print(only_for_workers.VALUE)"]
    value = importlib.import_module("only_for_workers").VALUE
    if multiprocessing.parent_process() is not None:
        value += float(subprocess.run(started, capture_output=True, text=True, check=True).stdout)
    return [creation.full((distributed.get_streaming_batch_size(BATCH),), value)]


@pytest.mark.parametrize(("workers", "value"), [(1, 7.0), (2, 14.0)])
def test_workers_find_modules_in_python_paths_and_so_do_processes_that_they_start(folder_of_module, workers, value):
    before = [*sys.path]
    with csx(1, workers, [folder_of_module]):
        assert read(imports_where_it_streams, 2) == [[value] * BATCH] * 2
    assert sys.path == before


def test_a_module_that_only_workers_find_is_explained_to_the_client(folder_of_module):
    with csx(1, 2, [folder_of_module]), pytest.raises(ModuleNotFoundError) as raised:
        read(lambda: importlib.import_module("only_for_workers"), 2)
    assert "PYTHONPATH" in raised.value.__notes__[0]
