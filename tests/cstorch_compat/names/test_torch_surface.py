"""PyTorch's surface as recorded, and what its metadata and its version say."""

import pytest

from cstorch_compat.names import manifest, package_metadata, torch_surface
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
    done = script("x = 1\nimport torch.utils.hipify\n")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-2:]
    assert "script.py:" in last[0] and "No module named 'torch.utils.hipify" in last[0]
    assert "cstorch_compat" not in done.stderr.replace("script.py", "")


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
