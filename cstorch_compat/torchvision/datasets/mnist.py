"""The MNIST data sets, read from the original IDX files, or handwritten digits that ship with the package.

Nothing is downloaded. If digits are substituted, a SubstituteWarning is issued once.
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
"""The height and width of an MNIST image in pixels."""
MAX_IMAGES = 1_000_000
"""The maximum number of images in a file. It exceeds all published sets of this format (EMNIST: 814,255); a larger
number means a damaged file.
"""
MAX_DEFLATE_RATIO = 1032
"""The maximum expansion of a deflate stream, given by its format."""
CHUNK_BYTES = 1 << 20
"""The number of bytes read at once."""
TEST_STRIDE = 5
"""Every fifth image of each class, in the order of the source, belongs to the test split."""
DIGITS_PATH = pathlib.Path(__file__).with_name("digits.npz")

_has_warned = RunLocal(lambda: False)
"""Whether the SubstituteWarning was issued in this run."""


class SubstituteWarning(UserWarning):
    """The warning for a data set that is substituted by another one."""


class MNIST(Dataset[tuple[Any, Any]]):
    """The MNIST data set: pairs (image, digit) of handwritten digits with 28x28 pixels.

    The image is a NumPy array, uint8 [28, 28], because Pillow is optional; `transforms.ToTensor` accepts it like a
    Pillow image. `data` (uint8 [n, 28, 28]) and `targets` (int64 [n]) are tensors and may be replaced.

    The files train-images-idx3-ubyte, train-labels-idx1-ubyte and t10k-... are read from root/MNIST/raw or root, plain
    or as .gz. A damaged or incomplete set raises DataError. Without any of the files, the 1,797 UCI digits are used,
    enlarged from 8x8 pixels; every fifth digit of each class belongs to the test split. `download` has no effect.
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
        # Only digits may be substituted by the UCI digits.
        if pair is None and not isinstance(self, FashionMNIST | KMNIST):
            _warn_once(pathlib.Path(self.root), download)
            pair = load_digits(train)
        if pair is None:
            raise DataError(
                f"{self.raw_folder} has no files of {type(self).__name__}",
                where=source.where(),
                hint="Put the four IDX files there, because this package does not download files.",
            )
        images, labels = pair
        self.data: Any = creation.tensor_over_array(images)
        self.targets: Any = creation.tensor_over_array(labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        # A copy, because a transform may modify the image in place.
        image: Any = np.array(_to_numpy(self.data)[index])
        target: Any = int(_to_numpy(self.targets)[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    @property
    def raw_folder(self) -> str:
        """Return the folder that is searched first for the IDX files."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Return the index of each class by name."""
        return {name: i for i, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        split = "Train" if self.train else "Test"
        return (
            f"Dataset {type(self).__name__}\n    Number of datapoints: {len(self)}\n"
            f"    Root location: {self.root}\n    Split: {split}"
        )


class FashionMNIST(MNIST):
    """The Fashion-MNIST data set: clothing in MNIST's format. Raises DataError if the local files are missing."""

    classes = [*"T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag".split(), "Ankle boot"]


class KMNIST(MNIST):
    """The Kuzushiji-MNIST data set: Japanese characters in MNIST's format.

    Raises DataError if the local files are missing.
    """

    classes = "o ki su tsu na ha ma ya re wo".split()


def _to_numpy(data: Any) -> np.ndarray:
    return data.array("reading a data set") if isinstance(data, Tensor) else np.asarray(data)


@functools.cache
def _load_all_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the shipped digits as images uint8 [1797, 28, 28], labels, and a mask of the test split."""
    small, labels = _load_stored_digits()
    # The source has values 0 to 16. Adding 8 rounds to the nearest of 255 levels.
    pixels = ((small.astype(np.uint16) * 255 + 8) // 16).astype(np.uint8)
    images = resize_planes(pixels, IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS)
    return images, labels, make_test_mask(labels)


def _load_stored_digits() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DIGITS_PATH, allow_pickle=False) as stored:
        planes, labels = stored["images"], stored["labels"]
    images = np.empty((len(labels), *planes.shape[:2]), planes.dtype)
    # Stored by digit and then pixel by pixel, which makes the compressed file a seventh smaller.
    images[np.argsort(labels, kind="stable")] = planes.transpose(2, 0, 1)
    return images, labels


def make_test_mask(labels: np.ndarray) -> np.ndarray:
    """Return the fixed split as a bool mask that is True for test elements.

    Of each class, every element whose number is a multiple of five, counted from 1 in order, is for testing.
    """
    mask = np.zeros(labels.shape, bool)
    for label in np.unique(labels):
        mask[np.flatnonzero(labels == label)[TEST_STRIDE - 1 :: TEST_STRIDE]] = True
    return mask


def load_digits(train: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the images uint8 [n, 28, 28] and labels of the training split of the shipped digits, or of the test split.

    The digits are enlarged from 8x8 pixels. `train` selects the split.
    """
    images, labels, mask = _load_all_digits()
    return images[mask != train], labels[mask != train]


def small_digits(train: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the images uint8 [n, 8, 8] with values 0 to 16, as in their source, and the labels of one split.

    `train` selects the training split, else the test split.
    """
    images, labels = _load_stored_digits()
    mask = make_test_mask(labels) != train
    return images[mask], labels[mask]


def write_digits(root: pathlib.Path) -> str:
    """Write the shipped digits as MNIST's four files and a README in root/MNIST/raw, unless that folder exists.

    Returns a sentence that describes what was written, or empty text if nothing was. Raises OSError if writing fails.
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
    """Issue a SubstituteWarning for the shipped digits, once in a run. Later calls do nothing.

    The text names the folders below `root` that were searched. `was_download_asked` adds that downloads are ignored.
    """
    if _has_warned.value:
        return
    train, test = (len(load_digits(flag)[1]) for flag in (True, False))
    state = "" if root.is_dir() else f" (the folder {root} does not exist)"
    download = " download=True is ignored, because this package does not download files." if was_download_asked else ""
    warnings.warn(
        "The MNIST files train-images-idx3-ubyte, t10k-images-idx3-ubyte, ... (or .gz) are neither in "
        f"{root / 'MNIST' / 'raw'} nor in {root}{state}. Real handwritten digits of another collection replace them "
        f"(UCI Optical Recognition of Handwritten Digits, CC BY 4.0), enlarged from 8x8 to 28x28: {train} for "
        f"training and {test} for testing.{download} Put the MNIST files there to use them.",
        SubstituteWarning,
        stacklevel=3,
    )
    _has_warned.value = True


def read_mnist(root: pathlib.Path, train: bool, name: str = "MNIST") -> tuple[np.ndarray, np.ndarray] | None:
    """Return images and labels of one split from the IDX files under `root`, or None if none of the four files exists.

    The files are searched in root/`name`/raw and then in root. Raises DataError if a file of the split is missing while
    others exist, if a file is damaged, or if the numbers of images and labels differ.
    """
    names = {flag: _file_names(flag) for flag in (True, False)}
    for folder in (root / name / "raw", root):
        files = {n: p for flag in names for n in names[flag] if (p := _find_existing(folder / n)) is not None}
        if not files:
            continue
        # An incomplete set is an error. Only if no file exists are the shipped digits used.
        missing = [n for n in names[train] if n not in files]
        if missing:
            raise DataError(
                f"MNIST in {folder} is incomplete: it has {', '.join(files)}, but not {', '.join(missing)}",
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
    """Return the images of one file and the labels of another.

    Raises DataError if a file is damaged, if the numbers differ, or if a label is above 9.
    """
    images, labels = read_idx(image_path, (IMAGE_SIDE_PIXELS, IMAGE_SIDE_PIXELS)), read_idx(label_path, ())
    if len(images) != len(labels):
        _raise_damaged(label_path, f"it has {len(labels)} labels, but {image_path.name} has {len(images)} images")
    # A label above 9 would later be out of range of a model's ten classes.
    if labels.size and labels.max() > 9:
        _raise_damaged(label_path, f"it has the label {labels.max()}, but labels are 0 to 9")
    return images, labels


def _raise_damaged(path: pathlib.Path, reason: str, cause: Exception | None = None) -> NoReturn:
    raise DataError(
        f"{path} is not a usable MNIST file: {reason}",
        where=source.where(),
        hint="Download the file again, or remove it to use the digits that this package includes.",
    ) from cause


def read_idx(path: pathlib.Path, item_shape: tuple[int, ...]) -> np.ndarray:
    """Return the unsigned bytes [n, *item_shape] of an IDX file, plain or .gz.

    Raises DataError if the file cannot be read or is damaged, or if its items have another shape.

    The format consists of the bytes 0, 0, 8 (for unsigned bytes) and the number of dimensions. The size of each
    dimension follows as a big-endian 32-bit integer, and then the values. No more memory is allocated than the file can
    fill. Source: the description on the site of the MNIST database, by Y. LeCun, C. Cortes and C. Burges.
    """
    is_packed = path.suffix == ".gz"
    try:
        with open(path, "rb") as raw, gzip.GzipFile(fileobj=raw) if is_packed else raw as stream:
            # Measure the open file, because the path may refer to another file by now.
            limit = os.fstat(raw.fileno()).st_size * (MAX_DEFLATE_RATIO if is_packed else 1)
            return _parse(path, stream, item_shape, limit)
    except (OSError, EOFError, zlib.error) as e:
        _raise_damaged(path, str(e) or type(e).__name__, e)


def _parse(path: pathlib.Path, stream: io.BufferedIOBase, item_shape: tuple[int, ...], limit_bytes: int) -> np.ndarray:
    """Return the uint8 array [n, *item_shape] in an IDX stream.

    Raises DataError if the header is invalid, if the array needs more than `limit_bytes`, or if the stream has fewer or
    more bytes than the header states. `path` is used in messages.
    """
    shape = _read_header(path, stream, item_shape)
    expected = int(np.prod(shape))
    header = 4 + 4 * len(shape)
    # Check before allocating: four bytes of a damaged header can request gigabytes.
    if header + expected > limit_bytes:
        _raise_damaged(
            path, f"{shape[0]} entries need {header + expected} bytes, but it can have at most {limit_bytes}"
        )
    data = io.BytesIO()
    # In chunks, because a compressed stream may end long before the size in its header.
    while (left := expected - data.tell()) > 0 and (chunk := stream.read(min(CHUNK_BYTES, left))):
        data.write(chunk)
    if left:
        _raise_damaged(path, f"it ends {left} bytes before the end of its {shape[0]} entries")
    if stream.read(1):
        _raise_damaged(path, f"it has more bytes after its {shape[0]} entries")
    return np.frombuffer(data.getbuffer(), np.uint8).reshape(shape)


def _read_header(path: pathlib.Path, stream: io.BufferedIOBase, item_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape (n, *item_shape) in the header of an IDX stream, which is then at the first value.

    Raises DataError if the header is not that of unsigned bytes of this rank and `item_shape`, or if n is not from 1 to
    MAX_IMAGES.
    """
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
        _raise_damaged(path, f"its header declares {count} entries, but it can have 1 to {MAX_IMAGES}")
    return count, *extents
