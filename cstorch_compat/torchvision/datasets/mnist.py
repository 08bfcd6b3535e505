"""MNIST: from the real IDX files where they are, otherwise the handwritten digits that ship with the package.

Nothing is ever downloaded. What is served instead is said once, by a SubstituteWarning.
"""

import functools
import gzip
import io
import os
import pathlib
import struct
import warnings
import zlib
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from cstorch_compat.run.process import RunLocal
from cstorch_compat.torchvision.transforms.functional import resize_planes
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.data import Dataset
from lazytensor.errors import DataError
from lazytensor.functional import creation

IMAGE_SIDE_PIXELS = 28
"""Pixels of a side of an MNIST image."""
MAX_IMAGES = 1_000_000
"""More than any published set in this format has (EMNIST: 814,255); a file that claims more is damaged."""
MAX_DEFLATE_RATIO = 1032
"""The most bytes that one byte of a deflate stream can stand for, by its format."""
CHUNK_BYTES = 1 << 20
TEST_STRIDE = 5
"""Of every class, in the order of the source, each fifth image is for testing."""
DIGITS_PATH = pathlib.Path(__file__).with_name("digits.npz")

_has_warned = RunLocal(lambda: False)


class SubstituteWarning(UserWarning):
    """Other data are served than the script asked for."""


class MNIST(Dataset[tuple[Any, Any]]):
    """Handwritten digits, 28x28 pixels: (image, digit) by index.

    The image is a NumPy array, uint8 [28, 28], for no image package is needed here; `transforms.ToTensor` takes it as
    it takes a Pillow image. `.data` (uint8 [n, 28, 28]) and `.targets` (int64 [n]) are tensors and may be replaced.

    The files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-... are read from root/MNIST/raw or root, plain or
    as .gz; a damaged or lonely one raises DataError. Where there are none, the 1,797 UCI digits are served, enlarged
    from 8x8: in each class every fifth is for testing. `download` has no effect.
    """

    classes = [
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    ]

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ):
        self.root = os.path.expanduser(os.fspath(root))
        self.train, self.transform, self.target_transform = train, transform, target_transform
        pair = read_mnist(pathlib.Path(self.root), train, type(self).__name__)
        # Digits stand in for digits, and for nothing else.
        if pair is None and not isinstance(self, FashionMNIST | KMNIST):
            _warn_once(pathlib.Path(self.root), download)
            pair = load_digits(train)
        if pair is None:
            raise DataError(
                f"no files of {type(self).__name__} in {self.raw_folder}",
                where=source.where(),
                hint="Put the four IDX files there; nothing is ever downloaded.",
            )
        images, labels = pair
        self.data: Any = creation.tensor_over_array(images)
        self.targets: Any = creation.tensor_over_array(labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        # A copy: a transform may write in place, and the next epoch needs the image as it was.
        image: Any = np.array(_to_numpy(self.data)[index])
        target: Any = int(_to_numpy(self.targets)[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    @property
    def raw_folder(self) -> str:
        """Where the IDX files are looked for first."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class by its name."""
        return {name: i for i, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        split = "Train" if self.train else "Test"
        return (
            f"Dataset {type(self).__name__}\n    Number of datapoints: {len(self)}\n"
            f"    Root location: {self.root}\n    Split: {split}"
        )


class FashionMNIST(MNIST):
    """Articles of clothing in MNIST's format, from local files alone."""

    classes = [*"T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag".split(), "Ankle boot"]


class KMNIST(MNIST):
    """Japanese characters in MNIST's format, from local files alone."""

    classes = "o ki su tsu na ha ma ya re wo".split()


def _to_numpy(data: Any) -> np.ndarray:
    return data.array("reading a data set") if isinstance(data, Tensor) else np.asarray(data)


@functools.cache
def _load_all_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images uint8 [1797, 28, 28], labels, and which of them are for testing."""
    small, labels = _load_stored_digits()
    # The source counts 0 to 16; plus 8 rounds to the nearest of the 255 steps.
    pixels = ((small.astype(np.uint16) * 255 + 8) // 16).astype(np.uint8)
    images = resize_planes(pixels, IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS)
    return images, labels, make_test_mask(labels)


def _load_stored_digits() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DIGITS_PATH, allow_pickle=False) as stored:
        planes, labels = stored["images"], stored["labels"]
    images = np.empty((len(labels), *planes.shape[:2]), planes.dtype)
    # Stored digit by digit and pixel after pixel, since alike neighbours make the file a seventh smaller.
    images[np.argsort(labels, kind="stable")] = planes.transpose(2, 0, 1)
    return images, labels


def make_test_mask(labels: np.ndarray) -> np.ndarray:
    """The fixed split, as a mask: of each class, every fifth in the given order."""
    mask = np.zeros(labels.shape, bool)
    for label in np.unique(labels):
        mask[np.flatnonzero(labels == label)[TEST_STRIDE - 1 :: TEST_STRIDE]] = True
    return mask


def load_digits(train: bool) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [n, 28, 28] and labels of one side of the split."""
    images, labels, mask = _load_all_digits()
    return images[mask != train], labels[mask != train]


def small_digits(train: bool) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [n, 8, 8] with values 0 to 16, as their source has them, and labels of one side of the split."""
    images, labels = _load_stored_digits()
    mask = make_test_mask(labels) != train
    return images[mask], labels[mask]


def write_digits(root: pathlib.Path) -> str:
    """Write the digits that ship as MNIST's four files below `root`, unless the folder of these files exists.

    Returns a sentence about what was written, or an empty text. Raises OSError.
    """
    folder = root / "MNIST" / "raw"
    if folder.exists():
        return ""
    folder.mkdir(parents=True)
    for train in (True, False):
        for name, values in zip(_file_names(train), load_digits(train), strict=True):
            extents = struct.pack(f">{values.ndim}I", *values.shape)
            (folder / name).write_bytes(bytes((0, 0, 8, values.ndim)) + extents + values.astype(np.uint8).tobytes())
    what = "1,797 handwritten digits of the UCI collection (Optical Recognition of Handwritten Digits, CC BY 4.0)"
    (folder / "README.txt").write_text(f"Not MNIST: {what}, enlarged from 8x8 to 28x28, in MNIST's format.\n")
    return f"wrote {folder}: {what}"


def _warn_once(root: pathlib.Path, was_download_asked: bool) -> None:
    if _has_warned.value:
        return
    train, test = (len(load_digits(flag)[1]) for flag in (True, False))
    state = "" if root.is_dir() else f" (there is no folder {root})"
    download = " download=True is ignored: nothing is ever downloaded here." if was_download_asked else ""
    warnings.warn(
        f"no MNIST files train-images-idx3-ubyte, t10k-images-idx3-ubyte, ... (or .gz) in {root / 'MNIST' / 'raw'} or "
        f"in {root}{state}. Served instead: real handwritten digits of another collection (UCI Optical Recognition of "
        f"Handwritten Digits, CC BY 4.0), enlarged from 8x8 to 28x28, {train} for training and {test} for testing."
        f"{download} Put the MNIST files there to use them.",
        SubstituteWarning,
        stacklevel=3,
    )
    _has_warned.value = True


def read_mnist(root: pathlib.Path, train: bool, name: str = "MNIST") -> tuple[np.ndarray, np.ndarray] | None:
    """Images and labels from the files under `root`; None if there is not one of the four.

    Raises DataError if a needed file is missing beside others, is damaged, or if the two do not belong together.
    """
    names = {flag: _file_names(flag) for flag in (True, False)}
    for folder in (root / name / "raw", root):
        files = {n: p for flag in names for n in names[flag] if (p := _find_existing(folder / n)) is not None}
        if not files:
            continue
        # A half-fetched set is a mistake that the user wants to know of; only none at all asks for our digits.
        missing = [n for n in names[train] if n not in files]
        if missing:
            raise DataError(
                f"MNIST in {folder} is incomplete: {', '.join(missing)} missing beside {', '.join(files)}",
                where=source.where(),
                hint="Put all four files there, plain or as .gz, or remove the others.",
            )
        return _read_pair(*(files[n] for n in names[train]))
    return None


def _file_names(train: bool) -> tuple[str, str]:
    part = "train" if train else "t10k"
    return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"


def _find_existing(path: pathlib.Path) -> pathlib.Path | None:
    packed = path.with_name(f"{path.name}.gz")
    return next((p for p in (path, packed) if p.is_file()), None)


def _read_pair(image_path: pathlib.Path, label_path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = read_idx(image_path, (IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS)), read_idx(label_path, ())
    if len(images) != len(labels):
        _raise_damaged(label_path, f"it has {len(labels)} labels, and {image_path.name} has {len(images)} images")
    # A label above 9 would index past the ten classes of a model, far from here.
    if labels.size and labels.max() > 9:
        _raise_damaged(label_path, f"it has the label {labels.max()}, and the labels are 0 to 9")
    return images, labels


def _raise_damaged(path: pathlib.Path, reason: str, cause: Exception | None = None) -> NoReturn:
    raise DataError(
        f"{path} is no usable MNIST file: {reason}",
        where=source.where(),
        hint="Fetch the file again, or remove it to use the digits that ship with this package.",
    ) from cause


def read_idx(path: pathlib.Path, item_shape: tuple[int, ...]) -> np.ndarray:
    """The unsigned bytes [n, *item_shape] of an IDX file, plain or .gz. Raises DataError if anything is wrong with it.

    The format: bytes 0, 0, 8 (for unsigned bytes), the number of dimensions; each extent as a big-endian 32-bit
    integer; then the values. No more is read or allocated than the file can hold.
    Source: the description on the site of the MNIST database, by Y. LeCun, C. Cortes and C. Burges.
    """
    is_packed = path.suffix == ".gz"
    try:
        with open(path, "rb") as raw, gzip.GzipFile(fileobj=raw) if is_packed else raw as stream:
            # What is open is measured, not the path, which may name another file by now.
            limit = os.fstat(raw.fileno()).st_size * (MAX_DEFLATE_RATIO if is_packed else 1)
            return _parse(path, stream, item_shape, limit)
    except (OSError, EOFError, zlib.error) as e:
        _raise_damaged(path, str(e) or type(e).__name__, e)


def _parse(path: pathlib.Path, stream: io.BufferedIOBase, item_shape: tuple[int, ...], limit_bytes: int) -> np.ndarray:
    shape = _read_header(path, stream, item_shape)
    expected = int(np.prod(shape))
    header = 4 + 4 * len(shape)
    # Checked before anything is allocated: four bytes of a damaged header can ask for gigabytes.
    if header + expected > limit_bytes:
        _raise_damaged(
            path, f"{shape[0]} entries need {header + expected} bytes, and it cannot hold more than {limit_bytes}"
        )
    data = io.BytesIO()
    # In pieces, since a packed stream may end long before the size that its header claims.
    while (left := expected - data.tell()) > 0 and (chunk := stream.read(min(CHUNK_BYTES, left))):
        data.write(chunk)
    if left:
        _raise_damaged(path, f"it ends {left} bytes before its {shape[0]} entries do")
    if stream.read(1):
        _raise_damaged(path, f"there is more in it after its {shape[0]} entries")
    return np.frombuffer(data.getbuffer(), np.uint8).reshape(shape)


def _read_header(path: pathlib.Path, stream: io.BufferedIOBase, item_shape: tuple[int, ...]) -> tuple[int, ...]:
    dims = 1 + len(item_shape)
    header = stream.read(4 + 4 * dims)
    magic = bytes([0, 0, 8, dims])
    if header[:4] != magic:
        _raise_damaged(path, f"it begins with {header[:4].hex() or 'nothing'} instead of {magic.hex()}")
    if len(header) != 4 + 4 * dims:
        _raise_damaged(path, f"its header ends after {len(header)} of {4 + 4 * dims} bytes")
    count, *extents = struct.unpack(f">{dims}I", header[4:])
    if tuple(extents) != item_shape:
        _raise_damaged(
            path, f"its images are {extents[0]}x{extents[1]} instead of {IMAGE_SIDE_PIXELS}x{IMAGE_SIDE_PIXELS}"
        )
    if not 0 < count <= MAX_IMAGES:
        _raise_damaged(path, f"it claims {count} entries, and 1 to {MAX_IMAGES} are possible")
    return count, *extents
