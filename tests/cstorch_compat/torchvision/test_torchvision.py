"""The MNIST stand-in and the transforms: files read exactly or refused, digits served openly, values as promised."""

import gzip
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torchvision.datasets import mnist
from cstorch_compat.torchvision.datasets.mnist import MNIST, SubstituteWarning, make_test_mask, read_idx
from cstorch_compat.torchvision.transforms import functional, transforms
from lazytensor.core import dtype
from lazytensor.core.tensor import Tensor
from lazytensor.data import DataLoader, DataOptionError
from lazytensor.errors import DataError
from lazytensor.functional import creation

ROOT = pathlib.Path(__file__).parents[3]
IMAGE = (28, 28)


def idx(array, *, kind=8, count=None, extents=None):
    shape = (len(array) if count is None else count, *(array.shape[1:] if extents is None else extents))
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + array.tobytes()


def images(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *IMAGE), np.uint8)


def labels(n):
    return np.arange(n, dtype=np.uint8) % 10


def store(folder, packed=False, **contents):
    """Write files by their short names: train_images, t10k_labels, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        part, what = name.split("_")
        path = folder / f"{part}-{what}-idx{3 if what == 'images' else 1}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)


def store_pair(folder, n, part="train", packed=False):
    pair = {f"{part}_images": idx(images(n)), f"{part}_labels": idx(labels(n))}
    store(folder, packed, **pair)


def served(root="nowhere", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SubstituteWarning)
        return MNIST(root, **options)


@pytest.fixture
def unwarned(monkeypatch):
    monkeypatch.setattr(mnist._has_warned, "value", False)


# -- the IDX files ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_idx_round_trip(n, packed, seed):
    array = images(n, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("x.gz" if packed else "x")
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
        assert np.array_equal(read_idx(path, IMAGE), array)


@given(st.data(), st.booleans())
def test_any_cut_and_any_addition_is_refused(data, packed):
    whole = idx(labels(40))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("x.gz" if packed else "x")
        for content in (whole[:cut], whole + b"\0" * (cut + 1)):
            path.write_bytes(gzip.compress(content) if packed else content)
            with pytest.raises(DataError, match="not a usable MNIST file") as caught:
                read_idx(path, ())
            assert str(path) in str(caught.value)


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_of_a_packed_file_never_gives_other_values(place, change):
    array = labels(300)
    content = bytearray(gzip.compress(idx(array)))
    content[place % len(content)] ^= change
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.gz"
        path.write_bytes(content)
        try:
            assert np.array_equal(read_idx(path, ()), array)  # such as a changed time stamp
        except DataError as e:
            assert "not a usable MNIST file" in str(e)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "begins with nothing"),
        (b"\x89PNG....", "begins with 89504e47"),
        (idx(images(1), kind=13), "begins with 00000d03"),
        (idx(labels(5)), "begins with 00000801"),
        (idx(images(1))[:9], "header ends after 9 of 16"),
        (idx(images(2), extents=(28, 27)), "28x27"),
        (idx(images(2), count=0), "declares 0 entries"),
        (idx(images(2), count=2**32 - 1), "declares 4294967295 entries"),
        (idx(images(2), count=1_000_000), "but it can have at most"),
        (idx(images(2), count=3), "but it can have at most"),
        (idx(images(2), count=1), "it has more bytes after"),
    ],
)
def test_malformed_files_are_refused_with_the_reason(tmp_path, content, reason):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_idx(path, IMAGE)


def test_a_packed_file_cannot_claim_more_than_deflate_can_give(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx(images(1), count=900_000)))
    with pytest.raises(DataError, match="but it can have at most"):
        read_idx(path, IMAGE)
    path.write_bytes(gzip.compress(idx(images(1), count=100)))
    with pytest.raises(DataError, match="ends 77616 bytes before"):
        read_idx(path, IMAGE)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("folder", [".", "MNIST/raw"])
@pytest.mark.parametrize(("train", "part"), [(True, "train"), (False, "t10k")])
def test_real_files_are_served_without_a_warning(tmp_path, unwarned, folder, packed, train, part):
    store_pair(tmp_path / folder, 12, part, packed)
    found = MNIST(tmp_path, train)
    assert np.array_equal(found.data.array(), images(12))
    assert found.targets.tolist() == labels(12).tolist()
    assert found[11][1] == 1


def test_raw_folder_goes_first(tmp_path):
    store_pair(tmp_path, 3)
    store_pair(tmp_path / "MNIST" / "raw", 4)
    assert len(MNIST(str(tmp_path))) == 4


def test_incomplete_and_unfitting_files_are_refused(tmp_path):
    store(tmp_path, train_images=idx(images(3)))
    with pytest.raises(DataError, match="it has train-images-idx3-ubyte, but not train-labels-idx1-ubyte"):
        MNIST(tmp_path)
    store(tmp_path, train_labels=idx(labels(4)))
    with pytest.raises(DataError, match="4 labels, but train-images-idx3-ubyte has 3 images"):
        MNIST(tmp_path)
    store(tmp_path, train_labels=idx(labels(3) + 9))
    with pytest.raises(DataError, match="the label 11"):
        MNIST(tmp_path)
    with pytest.raises(DataError, match="but not t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte"):
        MNIST(tmp_path, train=False)


# -- the digits that ship --------------------------------------------------------------------------------------------


def test_what_is_served_is_said_once(tmp_path, unwarned):
    with pytest.warns(SubstituteWarning) as caught:
        MNIST(tmp_path / "data", download=True)
        MNIST(tmp_path / "data", train=False)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    for part in ("train-images-idx3-ubyte", str(tmp_path / "data" / "MNIST" / "raw"), "data does not exist)", "UCI"):
        assert part in text
    assert "1442 for training and 355 for testing" in text
    assert "download=True is ignored, because this package does not download files" in text


def test_the_warning_does_not_claim_what_is_not_so(tmp_path, unwarned):
    with pytest.warns(SubstituteWarning) as caught:
        MNIST(tmp_path)
    assert "not exist" not in str(caught[0].message)
    assert "download" not in str(caught[0].message)
    assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_one_warning_in_a_process(tmp_path):
    script = "from cstorch_compat.torchvision.datasets.mnist import MNIST\nfor t in (0, 1, 1): MNIST('x', bool(t))"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": path}, "timeout": 120}
    run = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, check=True, **options)
    assert run.stderr.decode().count("SubstituteWarning") == 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200))
def test_split_takes_every_fifth_of_each_class(drawn):
    drawn = np.array(drawn)
    mask = make_test_mask(drawn)
    for label in range(10):
        of_class = mask[drawn == label]
        assert of_class.sum() == len(of_class) // 5
        assert not of_class.any() or np.flatnonzero(of_class)[0] == 4


def test_digits_are_split_and_balanced():
    train, test = served(train=True), served(train=False)
    assert (len(train), len(test)) == (1442, 355)
    assert np.bincount(test.targets.array()).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
    for found in (train, test):
        assert found.data.dtype is dtype.uint8
        assert tuple(found.data.shape) == (len(found), *IMAGE)
        assert found.targets.dtype is dtype.int64
        assert found.data.array().max() == 255
    pairs = {image.tobytes() for found in (train, test) for image in found.data.array()}
    assert len(pairs) == 1797


@pytest.mark.parametrize("train", [True, False])
def test_small_digits_are_the_served_ones_before_they_are_enlarged(train):
    small, labels_of_small = mnist.small_digits(train)
    large, labels_of_large = mnist.load_digits(train)
    assert small.shape == (len(large), 8, 8)
    assert (small.min(), small.max()) == (0, 16)
    np.testing.assert_array_equal(labels_of_small, labels_of_large)
    np.testing.assert_allclose(small.mean((1, 2)) * 255 / 16, large.mean((1, 2)), atol=3)


def test_digits_can_be_told_apart():
    """The nearest training image gives the digit, in at least 97 of 100 cases."""
    train, test = served(train=True), served(train=False)
    x, y = (found.data.array().reshape(len(found), -1).astype(np.float32) for found in (train, test))
    nearest = ((x * x).sum(1) - 2 * y @ x.T).argmin(1)
    assert (train.targets.array()[nearest] == test.targets.array()).mean() >= 0.97


def test_shipped_file_is_small_and_its_licence_is_named():
    assert mnist.DIGITS_PATH.stat().st_size < 200_000
    with np.load(mnist.DIGITS_PATH, allow_pickle=False) as stored:
        assert (stored["images"].dtype, stored["images"].shape) == (np.uint8, (8, 8, 1797))
        assert (stored["labels"].dtype, stored["labels"].shape) == (np.uint8, (1797,))
        assert stored["images"].max() == 16
    text = mnist.DIGITS_PATH.with_name("digits-LICENSE.txt").read_text()
    for part in ("10.24432/C50P49", "CC BY 4.0", "E. Alpaydin and C. Kaynak", "Changes"):
        assert part in text


def test_items_are_arrays_that_may_be_changed():
    found = served()
    image, target = found[0]
    assert (image.dtype, image.shape, type(target)) == (np.uint8, IMAGE, int)
    image[:] = 0
    assert found[0][0].any()
    assert found[-1][1] == found[len(found) - 1][1]
    with pytest.raises(IndexError):
        found[len(found)]


def test_data_and_targets_may_be_replaced():
    found = served()
    found.data, found.targets = found.data[:2], found.targets.array()[:2]
    assert len(found) == 2
    assert [target for _, target in (found[0], found[1])] == [0, 1]


def test_names_and_print():
    found = served("~/digits", train=False)
    assert found.root == os.path.expanduser("~/digits")
    assert found.raw_folder == os.path.join(found.root, "MNIST", "raw")
    assert found.class_to_idx["7 - seven"] == 7
    assert "datapoints: 355" in repr(found)
    assert "Split: Test" in repr(found)


def test_batches_as_a_script_makes_them():
    chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    loader = DataLoader(served(transform=chain, target_transform=lambda t: t + 1), 32, drop_last=True)
    x, y = next(iter(loader))
    assert (tuple(x.shape), x.dtype, y.dtype) == ((32, 1, 28, 28), dtype.float32, dtype.int64)
    assert y.tolist()[:3] == [1, 2, 3]
    assert len(loader) == 45


# -- transforms ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([None, 1, 3]))
def test_to_tensor_puts_channels_first_and_scales_bytes(height, width, channels):
    shape = (height, width) if channels is None else (height, width, channels)
    array = np.random.default_rng(height).integers(0, 256, shape, np.uint8)
    got = transforms.ToTensor()(array)
    assert got.dtype is dtype.float32
    expected = array.reshape(height, width, -1).transpose(2, 0, 1)
    assert np.array_equal(got.array(), expected / np.float32(255))
    assert np.array_equal(transforms.PILToTensor()(array).array(), expected)


def test_to_tensor_keeps_other_values_and_copies():
    array = np.full((2, 2), 7.0, np.float32)
    got = transforms.ToTensor()(array)
    array[:] = 0
    assert got.tolist() == [[[7.0, 7.0], [7.0, 7.0]]]


@pytest.mark.parametrize("picture", [creation.zeros(2, 2), [[1]], None])
def test_to_tensor_names_what_it_cannot_take(picture):
    with pytest.raises(TypeError, match="PIL Image or ndarray"):
        transforms.ToTensor()(picture)


def test_to_tensor_takes_whatever_shows_itself_as_an_array():
    class Picture:
        __array_interface__ = np.arange(6, dtype=np.uint8).reshape(2, 3).__array_interface__

    with pytest.raises(DataError, match="1 dimensions"):
        transforms.ToTensor()(np.zeros(3))
    assert transforms.PILToTensor()(Picture()).shape == (1, 2, 3)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.125, 2)), min_size=1, max_size=3))
def test_normalize_works_by_channel(pairs):
    mean, std = zip(*pairs, strict=True)
    x = np.random.default_rng(0).random((len(pairs), 4, 5), np.float32)
    got = transforms.Normalize(mean, std)(creation.from_numpy(x)).array()
    for plane, before, m, s in zip(got, x, mean, std, strict=True):
        assert np.array_equal(plane, (before - np.float32(m)) / np.float32(s))


def test_normalize_in_place_and_in_half():
    x = creation.ones(2, 1, 1)
    assert transforms.Normalize(0.5, 0.5, inplace=True)(x) is x
    assert x.tolist() == [[[1.0]], [[1.0]]]
    half = transforms.Normalize([0.0], [3.0])(creation.ones(1, 1, 1, dtype=dtype.float16))
    assert half.dtype is dtype.float16
    assert half.item() == float(np.float16(1 / 3))


def test_normalize_refuses_what_does_not_fit():
    with pytest.raises(DataOptionError, match="division by zero"):
        transforms.Normalize((0.0,), (0.0,))
    with pytest.raises(TypeError, match="needs a floating-point tensor"):
        transforms.Normalize(0.0, 1.0)(creation.from_numpy(np.zeros((1, 2, 2), np.uint8)))
    for shape in ((2, 3, 3), (3, 3)):
        with pytest.raises(DataError, match="3 means"):
            transforms.Normalize((0, 0, 0), (1, 1, 1))(creation.zeros(*shape))


def test_compose_and_lambda_and_their_print():
    chain = transforms.Compose([transforms.Lambda(lambda x: x + 1), transforms.Lambda(lambda x: x * 2)])
    assert chain(3) == 8
    assert repr(chain) == "Compose(\n    Lambda()\n    Lambda()\n)"
    assert repr(transforms.Normalize(0.5, 2)) == "Normalize(mean=0.5, std=2)"
    with pytest.raises(TypeError, match="callable"):
        transforms.Lambda(3)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_scaling_keeps_flat_images_and_the_range(height, width, new_height, new_width):
    flat = np.full((height, width), 77, np.uint8)
    assert np.array_equal(functional.resize_planes(flat, new_height, new_width), np.full((new_height, new_width), 77))
    image = np.random.default_rng(height).integers(0, 256, (height, width), np.uint8)
    scaled = functional.resize_planes(image, new_height, new_width)
    assert scaled.min() >= image.min()
    assert scaled.max() <= image.max()
    assert np.array_equal(functional.resize_planes(image, height, width), image)


def test_scaling_by_hand():
    assert functional.resize_planes(np.array([[0.0, 1.0]]), 1, 4).tolist() == [[0.0, 0.25, 0.75, 1.0]]
    assert functional.resize_planes(np.array([[0, 1]], np.uint8), 1, 1).tolist() == [[1]]


def test_resize_and_crop_keep_the_kind_of_image():
    grey, colour = np.zeros((4, 8), np.uint8), np.zeros((4, 8, 3), np.uint8)
    assert transforms.Resize(2)(grey).shape == (2, 4)
    assert transforms.Resize((6, 5))(colour).shape == (6, 5, 3)
    scaled = transforms.Resize([3])(creation.ones(1, 4, 8))
    assert isinstance(scaled, Tensor)
    assert tuple(scaled.shape) == (1, 3, 6)
    assert transforms.CenterCrop(2)(np.arange(16).reshape(4, 4)).tolist() == [[5, 6], [9, 10]]
    assert transforms.CenterCrop((1, 3))(np.ones((1, 1))).tolist() == [[0.0, 1.0, 0.0]]
    assert transforms.Resize(4, max_size=6)(grey).shape == (3, 6)
    for options in ({"interpolation": "nearest"}, {"antialias": False}):
        with pytest.raises(DataOptionError, match="bilinear"):
            transforms.Resize(2, **options)(grey)


def test_transforms_are_layers_of_a_sequence():
    # torchvision's transforms with settings are modules, and a subclass overrides `forward`.
    T = get_mirror("torchvision.transforms")
    sequence = get_mirror("torch").nn.Sequential(
        T.Resize(2), T.RandomGrayscale(p=1.0), T.Normalize([0.5] * 3, [0.5] * 3)
    )
    assert tuple(sequence(creation.ones(3, 4, 4)).shape) == (3, 2, 2)
