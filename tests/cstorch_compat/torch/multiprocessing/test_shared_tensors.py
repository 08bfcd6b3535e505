"""Processes of a script: they find the shim, and what they do to shared tensors comes back."""

import sys

import pytest

from cstorch_compat.torch.multiprocessing import shared_tensors
from cstorch_compat.torch.nn.modules import module
from lazytensor import nn
from lazytensor.functional import creation
from lazytensor.optim.eager import SGD


def test_tensors_are_found_in_arguments_in_a_fixed_order():
    model, x, y = nn.Linear(2, 1), creation.ones(1), creation.zeros(1)
    module.share_memory(model)
    x.share_memory_()
    assert [id(t) for t in shared_tensors.find_shared_tensors([{"a": [x, y]}, model])] == [
        id(x),
        id(model.weight),
        id(model.bias),
    ]


def train(model):
    optimizer = SGD(model.parameters(), lr=0.5)
    model(creation.ones(1, 2)).sum().backward()
    optimizer.step()


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_what_a_process_learns_is_the_parents_when_it_is_joined():
    model = nn.Linear(2, 1)
    module.share_memory(model)
    before = model.weight.tolist()
    process = shared_tensors.Process(target=train, args=(model,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert model.weight.tolist()[0] == pytest.approx([w - 0.5 for w in before[0]], abs=1e-6)


@pytest.mark.process
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_started_anew_finds_torch(script_process, method):
    done = script_process(
        f"""
        import torch.multiprocessing as mp

        def work(t):
            torch.manual_seed(0)
            t += 1
            print("child", torch.rand(1).item() > 0, flush=True)

        if __name__ == "__main__":
            mp.set_start_method("{method}", force=True)
            x = torch.zeros(2).share_memory_()
            p = mp.Process(target=work, args=(x,))
            p.start()
            p.join()
            print("parent", x.tolist(), p.exitcode)
        """
    )
    assert done.stdout.splitlines() == ["child True", "parent [1.0, 1.0] 0"], done.stderr
