"""Workers that are not forked give the batches of forked ones, and say what they cannot get by pickle."""

import ast
import multiprocessing
import os
import pickle
import sys
import textwrap

import pytest

from lazytensor import data
from lazytensor.data import worker_pool
from lazytensor.data.worker_errors import DataOptionError
from lazytensor.errors import DataError
from tests.conftest import python

SCRIPT = """
import random, sys
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

class Samples(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        info = get_worker_info()
        if i == 4 and info.dataset.fails:
            raise KeyError("four")
        return i, info.id, info.seed, torch.initial_seed(), random.random(), torch.rand(1)

    fails = False

class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(get_worker_info().id, 5, 2))

def first(samples):
    return samples[0]

def seed_python(worker):
    random.seed(worker)

def batches(context):
    torch.manual_seed(3)
    kwargs = dict(num_workers=2, multiprocessing_context=context)
    kept = DataLoader(Samples(), 2, shuffle=True, persistent_workers=True, worker_init_fn=seed_python, **kwargs)
    found = [[x.tolist() for x in batch] for _ in range(2) for batch in kept]
    found += [x.tolist() for x in DataLoader(Stream(), batch_size=2, **kwargs)]
    found += list(DataLoader(Stream(), batch_size=2, collate_fn=first, **kwargs))
    failing = Samples()
    failing.fails = True
    try:
        list(DataLoader(failing, **kwargs))
    except KeyError as error:
        found.append(str(error).splitlines()[-1] == "KeyError: 'four'")
    return found

if __name__ == "__main__":
    for context in METHODS:
        print(batches(context))
"""


@pytest.mark.slow
@pytest.mark.process
def test_spawned_workers_give_the_batches_of_forked_ones(tmp_path):
    methods = [m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()]
    path = tmp_path / "loaders.py"
    path.write_text(SCRIPT.replace("METHODS", repr(methods)))
    done = python("-m", "cstorch_compat", "run", str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *others = map(ast.literal_eval, done.stdout.splitlines()[-len(methods) :])
    assert len(first) == 13 and all(other == first for other in others)


@pytest.mark.process
def test_script_without_a_main_guard_is_told_to_have_one(tmp_path):
    path = tmp_path / "bare.py"
    path.write_text(
        textwrap.dedent("""
        from lazytensor import data
        list(data.DataLoader([1, 2], num_workers=1, multiprocessing_context="spawn"))
        """)
    )
    done = python(str(path), cwd=tmp_path)
    assert done.returncode == 1
    assert "a worker process has started workers while it imported the script" in done.stderr
    assert 'Put the loop over the loader below `if __name__ == "__main__":`.' in done.stderr.splitlines()[-1]


class Plain(data.Dataset):
    """A dataset of two numbers that can be pickled."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return i


lambda_of_module = lambda x: x  # noqa: E731


@pytest.mark.process
@pytest.mark.parametrize("option", ["collate_fn", "worker_init_fn", "dataset"])
@pytest.mark.parametrize("kind", [AttributeError, pickle.PicklingError, TypeError])
def test_what_cannot_be_pickled_is_named_with_the_type_of_pickles_error(option, kind):
    with open(os.devnull, encoding="utf-8") as file:
        value = {AttributeError: lambda x: x, pickle.PicklingError: lambda_of_module, TypeError: file}[kind]
        if kind is not TypeError and sys.version_info >= (3, 14):
            kind = pickle.PicklingError  # later Pythons raise it for local functions too
        dataset = Plain()
        dataset.part = value if option == "dataset" else None
        options = {} if option == "dataset" else {option: value}
        loader = data.DataLoader(dataset, num_workers=2, multiprocessing_context="spawn", **options)
        with pytest.raises(kind, match="a worker process gets its dataset and functions by pickle") as caught:
            iter(loader)
    assert isinstance(caught.value, DataError) and "test_spawned_workers.py" in str(caught.value)


def test_default_start_method_is_that_of_the_system_or_of_the_script(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: None)
    for platform, method in {"darwin": "spawn", "win32": "spawn", "linux": "fork", "freebsd14": "fork"}.items():
        monkeypatch.setattr(worker_pool.sys, "platform", platform)
        assert worker_pool.default_context().get_start_method() == method
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: "forkserver")
    assert worker_pool.default_context().get_start_method() == "forkserver"


def test_context_of_a_loader_can_be_read_and_changed():
    loader = data.DataLoader(Plain(), num_workers=1)
    assert loader.multiprocessing_context is None
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context is multiprocessing.get_context("spawn")
    with pytest.raises(DataOptionError):
        loader.multiprocessing_context = "thread"
