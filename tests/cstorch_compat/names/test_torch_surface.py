"""PyTorch's surface as recorded, and what its metadata and its version say."""

import pytest

from cstorch_compat.names import manifest, mirror_table, package_metadata, torch_surface
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch.torch_version import TorchVersion


def test_surface_has_what_pytorch_offers_and_no_more():
    assert {
        "torch.nn.Linear",
        "torch.Tensor.sum",
        "torch.utils.data.dataloader",
        "torch.fx",
    } <= torch_surface.all_torch_names()
    assert not torch_surface.is_torch_name("torch.nn.Lineer") and torch_surface.is_torch_name("torch.utils")
    assert len(torch_surface.all_torch_names()) > 5000


def test_modules_above_known_names_are_known():
    assert manifest.is_known("torch.distributed.fsdp") and manifest.is_known("cerebras.pytorch.amp")
    assert not manifest.is_known("torch.distribution")


def test_metadata_of_the_emulated_packages_is_given_by_name_alone(script):
    done = script(
        """
        import importlib.metadata as metadata, importlib.util
        print(metadata.version("torch"), metadata.version("cerebras_pytorch"), torch.__version__)
        print(metadata.metadata("torch")["Name"], importlib.util.find_spec("torch").name, metadata.files("torch"))
        print([d.name for d in metadata.distributions() if d.name in ("torch", "torchvision")])
        """
    )
    assert done.returncode == 0, done.stderr
    ours = package_metadata.EMULATED_VERSIONS["torch"]
    assert done.stdout.splitlines() == [f"{ours} 2.10.0 {ours}", "torch torch None", "[]"]


@pytest.mark.parametrize(
    ("version", "other"),
    [("2.4.0", "2.13.0+cpu"), ("1.9", (1, 10)), ("2.13.0rc1", "2.13.0"), ("2.13.0", "2.13.0+cpu"), ("2.13", (2, 14))],
)
def test_versions_are_ordered_by_their_numbers(version, other):
    earlier = TorchVersion(version)
    assert earlier < other and earlier <= other and earlier != other and not earlier >= other


def test_a_version_is_text():
    assert TorchVersion("2.13.0+cpu").split(".")[:2] == ["2", "13"] and TorchVersion("2.13") == "2.13.0"


def test_a_missing_module_names_the_line_and_the_way_out(script):
    done = script("x = 1\nimport torch.utils.hipifi\n")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-2:]
    assert "script.py:" in last[0] and "No module named 'torch.utils.hipifi" in last[0]
    assert "cstorch_compat" not in done.stderr.replace("script.py", "")


@pytest.mark.parametrize(
    "code",
    [
        "from torch.fooo import bar",
        "import torch.fooo",
        "torch.fooo",
        "from torch.hub import fooo",
        "from torch import fooo",
        "import torch.nn.functional.fooo",
        "torch.fft.fft(torch.ones(3))",
        "from torch.fft import fft; fft(torch.ones(3))",
        "torch.ops.torch_scatter.scatter_max",
        "torch.ops.load_library('x.so')",
        "torch.complex(torch.ones(1), torch.ones(1))",
    ],
)
def test_a_missing_name_names_the_line_of_the_script(script, code):
    done = script(f"x = 1\n{code}\n", preamble="import torch\n")
    assert done.returncode == 1
    assert "script.py:3: " in done.stderr.replace("script.py:3 ", "script.py:3: ")


def test_every_module_of_pytorch_can_be_imported_and_no_name_of_it_is_unknown():
    missing = [path for path in torch_surface.torch_modules() if mirror_table.find_entry(path) is None]
    assert missing == []
    names = {f"{path}.{n}" for path in torch_surface.torch_modules() for n in torch_surface.undocumented_names(path)}
    assert len(names) > 10000
    assert [n for n in names if not manifest.is_known(n)] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("torch.nn.attention.flex_attention._DEFAULT_SPARSE_BLOCK_SIZE", 128),
        ("torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX", "_extra_state"),
        ("torch.hub.READ_DATA_CHUNK", 131072),
        ("torch.serialization.DEFAULT_PROTOCOL", 2),
    ],
)
def test_constants_have_the_values_of_pytorch(name, value):
    path, _, last = name.rpartition(".")
    assert getattr(get_mirror(path), last) == value


def test_private_questions_answer_no_and_other_private_names_refuse_their_use():
    private = get_mirror("torch._C._functorch")
    assert private.is_batchedtensor(1) is False and get_mirror("torch.profiler").kineto_available() is False
    with pytest.raises(NotImplementedError, match="_unwrap_batched: private names"):
        private._unwrap_batched(1)
    with pytest.raises(AttributeError, match="private names"):
        private.no_such_name  # noqa: B018


def test_modules_that_nothing_here_can_do_are_importable_and_refused_on_use(script):
    done = script(
        """
        import torch.fx.experimental.symbolic_shapes, torch.distributed.tensor.parallel as parallel
        from torch.ao.quantization import QConfig
        class Mine(parallel.ParallelStyle): pass
        print(issubclass(Mine, parallel.ParallelStyle), isinstance(1, QConfig))
        print(issubclass(torch.onnx.errors.OnnxExporterWarning, Exception))
        for use in (Mine, QConfig, torch.fx.symbolic_trace, torch.export.export):
            try: use()
            except NotImplementedError as e: print(e.what, bool(e.hint))
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True False",
        "True",
        "torch.distributed.tensor.parallel.ParallelStyle: a run is one process True",
        "torch.ao.quantization.QConfig: quantized types are not supported True",
        "torch.fx.symbolic_trace: FX graphs are not supported True",
        "torch.export.export: exporting programs is not supported True",
    ]
