"""What does nothing on a CPU build of PyTorch does nothing here: answers recorded from PyTorch 2.13.0, one process."""

import ast
import builtins
import operator

import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch import global_settings
from cstorch_compat.torch import profiler as timing
from cstorch_compat.torch.amp import GradScaler, autocast
from cstorch_compat.torch.backends import cpu_build
from cstorch_compat.torch.compiler import OptimizedModule, compile
from cstorch_compat.torch.distributed import process_group
from cstorch_compat.torch.multiprocessing import spawn
from cstorch_compat.torch.nn.parallel import DistributedDataParallel
from cstorch_compat.torch.utils.data.distributed import DistributedSampler
from lazytensor import nn
from lazytensor.core import dtype as dt
from lazytensor.functional import creation
from lazytensor.functional import loss as losses
from lazytensor.optim.eager import SGD

ROWS = list(cpu_build.parse_rows())
ABSENT = {f"torch.backends.{name}" for name in ("kleidiai", "nnpack", "xnnpack")}
"""Modules of PyTorch that scripts do not import, and that are not provided."""


@pytest.mark.parametrize("path", sorted({path for path, _, _ in ROWS} - ABSENT))
def test_answers_are_those_that_were_recorded(path):
    module = get_mirror(path)
    for _, name, said in (row for row in ROWS if row[0] == path):
        value = getattr(module, name.removesuffix("()"))
        if not name.endswith("()"):
            assert value == ast.literal_eval(said), name
        elif said.startswith("raises "):
            kind, _, message = said.removeprefix("raises ").partition(": ")
            with pytest.raises(getattr(builtins, kind)) as caught:
                value()
            assert ast.literal_eval(message) in str(caught.value)
        else:
            assert value() == ast.literal_eval(said), name


def test_settings_of_backends_can_be_set(script):
    done = script(
        """
        import torch.backends.cudnn as cudnn
        cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.cuda.manual_seed(1)
        print(cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32, torch.accelerator.is_available())
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        print(torch.get_num_threads(), torch.are_deterministic_algorithms_enabled())
        with torch.cuda.device(0):
            print(torch.cuda.device_count(), torch.cuda.memory_allocated())
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True True False", "1 True", "0 0"]


@pytest.fixture
def group():
    """The group of one process."""
    process_group.init_process_group("gloo", init_method="tcp://localhost:1", rank=0, world_size=1)
    yield
    process_group.destroy_process_group()


def test_collectives_of_one_process_leave_its_values(group):
    x, places = creation.tensor([1.0, 2.0]), [creation.zeros(2)]
    assert process_group.all_reduce(x, process_group.ReduceOp.SUM) is None
    process_group.all_gather(places, x)
    assert process_group.broadcast(x, 0, async_op=True).wait()
    found = [None]
    process_group.all_gather_object(found, "mine")
    assert (x.tolist(), places[0].tolist(), found) == ([1.0, 2.0], [1.0, 2.0], ["mine"])
    assert (process_group.get_rank(), process_group.get_world_size(), process_group.get_backend()) == (0, 1, "gloo")


def test_a_group_says_what_is_wrong(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        process_group.init_process_group("gloo")
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        process_group.get_rank()
    with pytest.raises(RuntimeError, match="a group of 2 processes was requested"):
        process_group.init_process_group("gloo", init_method="tcp://localhost:1", rank=0, world_size=2)
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        process_group.init_process_group("nccl", init_method="tcp://localhost:1", rank=0, world_size=1)


def test_a_distributed_model_is_the_model_under_a_name(group):
    model = DistributedDataParallel(nn.Linear(2, 1))
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    with model.no_sync():
        assert model(creation.ones(1, 2)).item() == model.module(creation.ones(1, 2)).item()
    with pytest.raises(ValueError, match="device_ids"):
        DistributedDataParallel(nn.Linear(2, 1), device_ids=[0])


def test_distributed_sampler_gives_the_recorded_orders():
    # Recorded from PyTorch 2.13.0.
    first, second = (DistributedSampler(range(10), 3, rank) for rank in (0, 2))
    second.set_epoch(2)
    assert (list(first), list(second)) == ORDERS


ORDERS = ([4, 5, 0, 2], [1, 9, 2, 7])


def test_a_compiled_module_keeps_the_names_of_pytorch():
    model = compile(nn.Linear(2, 1))
    assert isinstance(model, OptimizedModule) and list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert model.in_features == 2 and not model.eval().training and not model._orig_mod.training
    assert compile(operator.neg)(3) == -3 and compile(mode="default")(operator.neg)(3) == -3


def test_autocast_runs_products_in_the_half_type_and_losses_in_float32():
    # As PyTorch 2.13.0 does it: dtypes of a linear layer, of what follows, and of a loss.
    layer, x = nn.Linear(4, 4), creation.ones(2, 4)
    with autocast("cpu"):
        y = layer(x)
        loss = losses.mse_loss(y, x)
        assert (y.dtype, (y + x).dtype, (x @ x.t()).dtype, loss.dtype) == (
            dt.bfloat16,
            dt.float32,
            dt.bfloat16,
            dt.float32,
        )
        with autocast("cpu", enabled=False):
            assert layer(x).dtype is dt.float32
    assert layer(x).dtype is dt.float32
    loss.backward()
    assert layer.weight.grad.dtype is dt.float32


def test_a_scaler_skips_a_step_with_infinite_gradients():
    weight = nn.Parameter(creation.ones(1))
    optimizer, scaler = SGD([weight], 1.0), GradScaler("cpu", init_scale=4.0, growth_interval=1)
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert weight.item() == -1.0 and scaler.get_scale() == 8.0
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not GradScaler().is_enabled()


def test_blocks_are_timed_by_name(tmp_path):
    with timing.profile(schedule=timing.schedule(wait=1, warmup=0, active=1, repeat=1)) as profiler:
        for _ in range(3):
            with timing.record_function("block"):
                pass
            profiler.step()
    averages = {e.key: e.count for e in profiler.key_averages()}
    assert averages == {"block": 1, "ProfilerStep#1": 1}
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "block" in (tmp_path / "trace.json").read_text()
    assert timing.Timer("sum(x)", globals={"x": [1, 2]}).timeit(10).number_per_run == 10


def test_a_default_device_is_where_new_tensors_live():
    global_settings.set_default_device("meta")
    try:
        assert creation.ones(2).device.type == "meta"
    finally:
        global_settings.set_default_device(None)
    assert creation.ones(2).device.type == "cpu"
    with pytest.raises(ValueError, match="device cuda is not available"):
        global_settings.set_default_device("cuda")


@pytest.mark.process
def test_spawn_runs_a_function_in_processes(tmp_path):
    spawn.spawn(_touch, (str(tmp_path),), nprocs=1, start_method="fork")
    assert (tmp_path / "0").exists()
    with pytest.raises(spawn.ProcessRaisedException, match="Process 0 terminated with the following error"):
        spawn.spawn(_touch, (str(tmp_path / "no"),), nprocs=1, start_method="fork")


def _touch(i, folder):
    with open(f"{folder}/{i}", "w"):
        pass
