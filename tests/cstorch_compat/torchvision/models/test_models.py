"""Models, random transforms and pictures: values recorded from torchvision 0.28 with PyTorch 2.13.0."""

import numpy as np
import pytest
from PIL import Image

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torchvision import utils
from cstorch_compat.torchvision.datasets import folder
from cstorch_compat.torchvision.models import resnet, vgg, vision_transformer
from cstorch_compat.torchvision.models.weights import WEIGHTS_CLASSES
from cstorch_compat.torchvision.transforms import functional, transforms
from cstorch_compat.torchvision.transforms import random as random_transforms
from lazytensor import random
from lazytensor.functional import creation


def total(model):
    return sum(float(p.array().astype(np.float64).sum()) for p in model.parameters())


@pytest.fixture
def photograph():
    return Image.fromarray((np.arange(40 * 50 * 3) % 251).reshape(40, 50, 3).astype("uint8"))


@pytest.mark.slow
def test_resnet18_begins_and_answers_as_torchvisions():
    random.manual_seed(1)
    model = resnet.resnet18(num_classes=3)
    assert len(model.state_dict()) == 122 and total(model) == pytest.approx(4784.0569, abs=1e-3)


def test_names_of_parameters_are_torchvisions():
    small = vision_transformer.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=3)
    names = list(small.state_dict())
    assert names[:4] == ["class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding"]
    assert "encoder.layers.encoder_layer_0.mlp.3.weight" in names and names[-1] == "heads.head.bias"
    assert small(creation.ones(2, 3, 32, 32)).shape == (2, 3)
    features = vgg.make_layers(vgg.STAGE_WIDTHS["11"], batch_norm=True)
    assert [type(m).__name__ for m in features[:4]] == ["Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d"]


def test_published_weights_come_from_the_cache_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    weights = WEIGHTS_CLASSES["VGG16_Weights"].IMAGENET1K_V1
    assert (
        weights.url.endswith("vgg16-397923af.pth")
        and WEIGHTS_CLASSES["ResNet50_Weights"].DEFAULT.name == "IMAGENET1K_V2"
    )
    with pytest.raises(RuntimeError, match="not in the cache"):
        weights.get_state_dict()


def test_scripts_find_models_in_the_dictionary_of_the_module():
    names = [n for n in get_mirror("torchvision.models").__dict__ if n.islower() and not n.startswith("__")]
    assert {"resnet18", "vgg16", "vit_b_16"} <= set(names)


def test_random_transforms_draw_as_torchvisions(photograph):
    chain = transforms.Compose(
        [
            random_transforms.RandomResizedCrop(24),
            random_transforms.RandomHorizontalFlip(),
            random_transforms.RandomCrop(20, padding=4),
            random_transforms.ColorJitter(0.4, 0.3, 0.2, 0.1),
            random_transforms.RandomRotation(20),
            random_transforms.RandomGrayscale(0.5),
            transforms.ToTensor(),
            random_transforms.RandomErasing(1.0),
        ]
    )
    random.manual_seed(3)
    images = [chain(photograph).array() for _ in range(4)]
    assert [float(i.mean()) for i in images] == pytest.approx(MEANS, abs=1e-6)
    assert [float(i[1, 3, 4]) for i in images] == pytest.approx(PIXELS, abs=1e-6)


def test_pictures_keep_their_kind(photograph):
    tensor = transforms.ToTensor()(photograph)
    for image in (photograph, np.asarray(photograph), tensor):
        small = functional.resize(image, 17)
        assert type(small) is type(functional.hflip(image)) and functional.get_image_size(small) == [21, 17]
        assert functional.get_image_size(functional.center_crop(image, 60)) == [60, 60]
        assert functional.get_image_size(functional.pad(image, 3)) == [56, 46]
    assert np.array_equal(np.asarray(functional.to_pil_image(tensor)), np.asarray(photograph))
    assert transforms.Resize(17)(photograph).size == (21, 17)


def test_images_side_by_side_in_one_file(tmp_path):
    random.manual_seed(5)
    images = creation.rand(5, 1, 4, 6)
    grid = utils.make_grid(images, nrow=3, normalize=True)
    assert tuple(grid.shape) == GRID[0] and float(grid.mean()) == pytest.approx(GRID[1], abs=1e-6)
    utils.save_image(images, tmp_path / "grid.png", nrow=5)
    with Image.open(tmp_path / "grid.png") as image:
        assert image.size == (42, 8)


def test_folders_are_classes(tmp_path, photograph):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        photograph.save(tmp_path / name / "1.png")
    found = folder.ImageFolder(tmp_path, transforms.ToTensor())
    assert found.classes == ["a", "b"] and [target for _, target in found] == [0, 1]
    (tmp_path / "c").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the classes c"):
        folder.ImageFolder(tmp_path)


def test_fake_data_are_drawn_as_torchvisions():
    fake = folder.FakeData(5, (3, 8, 8), 4, transforms.ToTensor())
    pairs = [(float(fake[i][0].mean()), fake[i][1]) for i in range(5)]
    assert [p for p, _ in pairs] == pytest.approx([p for p, _ in FAKE], abs=1e-6)
    assert [t for _, t in pairs] == [t for _, t in FAKE]


MEANS = [0.248833, 0.425824, 0.328026, 0.421435]
PIXELS = [0.427451, 0.207843, 0.482353, 0.588235]
GRID = ((3, 14, 26), 0.167271)
FAKE = [(0.513991, 2), (0.483762, 3), (0.477226, 0), (0.513399, 2), (0.477247, 2)]
