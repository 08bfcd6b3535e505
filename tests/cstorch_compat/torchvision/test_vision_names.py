"""What model code takes from torchvision beside models and transforms; values are recorded from torchvision 0.19."""

import pytest

from cstorch_compat.torchvision.datasets.imagenet import (
    ImageNet,
    ImageReadMode,
    StandardTransform,
    read_image,
    verify_str_arg,
)
from cstorch_compat.torchvision.ops import FrozenBatchNorm2d, StochasticDepth, stochastic_depth
from lazytensor import manual_seed, ones


def test_a_frozen_batch_norm_keeps_its_statistics():
    layer = FrozenBatchNorm2d(2, eps=0.0)
    layer.load_state_dict(
        {"weight": ones(2) * 2, "bias": ones(2), "running_mean": ones(2) * 3, "running_var": ones(2) * 4}
    )
    assert layer(ones(1, 2, 1, 1) * 5).flatten().tolist() == [3.0, 3.0]
    assert not list(layer.parameters()) and repr(layer) == "FrozenBatchNorm2d(2, eps=0.0)"


def test_stochastic_depth_drops_rows_and_scales_the_rest():
    manual_seed(0)
    # The draws are those of torch.empty(6, 1).bernoulli_(0.5) in PyTorch 2.13.0.
    assert stochastic_depth(ones(6, 2), 0.5, "row")[:, 0].tolist() == [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    assert StochasticDepth(0.5, "batch").eval()(ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="mode has to be either 'batch' or 'row', but got x"):
        stochastic_depth(ones(2), 0.5, "x")


def test_imagenet_is_read_from_unpacked_folders(tmp_path):
    for name in ("n02", "n01"):
        (tmp_path / "val" / name).mkdir(parents=True)
        (tmp_path / "val" / name / "a.JPEG").write_bytes(b"")
    data = ImageNet(tmp_path, split="val", loader=lambda path: path)
    assert data.wnids == ["n01", "n02"] and data[1] == (str(tmp_path / "val" / "n02" / "a.JPEG"), 1)
    assert "Split: val" in repr(data)
    with pytest.raises(ValueError, match="Unknown value 'test' for argument split"):
        ImageNet(tmp_path, split="test")
    with pytest.raises(FileNotFoundError):
        ImageNet(tmp_path)


def test_arguments_of_data_sets_are_checked():
    assert verify_str_arg("a", "x", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="Expected type str"):
        verify_str_arg(1, "x")
    assert StandardTransform(lambda x: x + 1)(1, 2) == (2, 2)


def test_an_image_is_read_in_the_mode_that_is_asked_for(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    pil.new("RGB", (3, 2), (1, 2, 3)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").shape == (3, 2, 3)
    assert read_image(str(tmp_path / "a.png"), ImageReadMode.GRAY).shape == (1, 2, 3)
