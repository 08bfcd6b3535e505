"""Data sets of torchvision that read local files or draw random images. Nothing is downloaded."""

import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.torch.serialization.pickled_objects import ObjectReader
from cstorch_compat.torchvision.transforms import functional
from lazytensor.core import source
from lazytensor.data import Dataset
from lazytensor.errors import DataError, IndexInvalid, OptionInvalid, OptionMissing
from lazytensor.functional.creation import randint, randn
from lazytensor.functional.random_sampling import get_rng_state, set_rng_state
from lazytensor.random import default_generator

TORCHVISION_VERSION = "0.28.0"
"""The emulated version of torchvision."""
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class VisionDataset(Dataset[tuple[Any, Any]]):
    """The base class of image data sets in a folder, with transforms of the samples.

    `transforms` is a function (image, target) -> (image, target). It excludes `transform` (of the image) and
    `target_transform`; giving both raises ValueError.
    """

    def __init__(
        self,
        root: Any = None,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ):
        if transforms is not None and (transform is not None or target_transform is not None):
            raise OptionInvalid(
                "Only transforms or transform/target_transform can be passed as argument",
                where=source.where(),
                hint="Omit transforms, or transform and target_transform.",
            )
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transforms, self.transform, self.target_transform = transforms, transform, target_transform

    def transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """Return the image and target after the transforms.

        If `transforms` is set, it is called with both and the other transforms are ignored. Otherwise `transform`
        applies to the image and `target_transform` to the target; None leaves a value unchanged.
        """
        if self.transforms is not None:
            both: tuple[Any, Any] = self.transforms(image, target)
            return both
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __len__(self) -> int:
        raise OptionMissing(
            f"{type(self).__name__} does not define __len__", where=source.where(), hint="Define it in the subclass."
        )

    def extra_repr(self) -> str:
        """Return additional lines for the printed form."""
        return ""

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        lines += [f"Root location: {self.root}"] if self.root is not None else []
        lines += self.extra_repr().splitlines()
        return "\n".join([f"Dataset {type(self).__name__}", *(f"    {line}" for line in lines)])


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Return whether a file name ends with one of `extensions`, ignoring upper case."""
    return filename.lower().endswith(extensions)


def is_image_file(filename: str) -> bool:
    """Return whether a file name has an extension of an image format."""
    return has_file_allowed_extension(filename, IMAGE_EXTENSIONS)


def default_loader(path: str) -> Any:
    """Return the image in a file as an RGB image of Pillow."""
    return functional.open_image(path)


class DatasetFolder(VisionDataset):
    """A data set of files in which each subfolder of `root` is a class.

    - `loader`: a function from a path to a sample.
    - `extensions`: the valid ends of file names.
    - `is_valid_file`: a function from a path to bool, which replaces `extensions`.
    - `allow_empty`: allow classes without valid files.

    Raises FileNotFoundError if there are no class folders, or if a class has no valid file and `allow_empty` is False.
    """

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ):
        super().__init__(root, None, transform, target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(root)
        is_valid = is_valid_file or (lambda path: has_file_allowed_extension(path, extensions or ()))
        self.samples = self.make_dataset(root, self.class_to_idx, is_valid, allow_empty)
        self.targets = [target for _, target in self.samples]

    def find_classes(self, directory: Any) -> tuple[list[str], dict[str, int]]:
        """Return the sorted names of the direct subfolders of `directory`, and a mapping from name to index.

        Raises FileNotFoundError if there are none or the folder does not exist.
        """
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        if not classes:
            raise FileNotFoundError(
                f"Couldn't find any class folder in {directory}.\n  Put the samples of each class into one folder."
            )
        return classes, {name: i for i, name in enumerate(classes)}

    @staticmethod
    def make_dataset(
        directory: Any, class_to_idx: dict[str, int], is_valid: Callable[[str], bool], allow_empty: bool = False
    ) -> list[tuple[str, int]]:
        """Return pairs (path, class index) of the valid files, sorted by class, folder and name.

        Files in nested folders count too, and symbolic links are followed. Raises FileNotFoundError if a class has no
        valid file and `allow_empty` is False.
        """
        samples: list[tuple[str, int]] = []
        empty = set(class_to_idx)
        for name in sorted(class_to_idx):
            # Sort at each level, because the order of a file system is arbitrary.
            for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
                paths = [os.path.join(folder, f) for f in sorted(files)]
                valid = [(path, class_to_idx[name]) for path in paths if is_valid(path)]
                samples += valid
                empty -= {name} if valid else set()
        if empty and not allow_empty:
            raise FileNotFoundError(
                f"Found no valid file for the classes {', '.join(sorted(empty))}."
                "\n  Pass allow_empty=True, or add files."
            )
        return samples

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self.transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """A data set of images in which each subfolder of `root` is a class."""

    def __init__(
        self,
        root: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ):
        extensions = None if is_valid_file else IMAGE_EXTENSIONS
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples


class FakeData(VisionDataset):
    """A data set of random noise images, each drawn with the seed index + `random_offset`."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ):
        super().__init__(None, None, transform, target_transform)
        self.size, self.num_classes, self.image_size, self.random_offset = size, num_classes, image_size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexInvalid(
                f"{type(self).__name__} index out of range",
                where=source.where(),
                hint="Pass an index below the number of samples.",
            )
        # Restore the generator, so that the script's random numbers do not change.
        before = get_rng_state()
        default_generator.manual_seed(index + self.random_offset)
        image = randn(*self.image_size)
        target = int(randint(0, self.num_classes, size=(1,)).item())
        set_rng_state(before)
        return self.transformed(functional.to_pil_image(image), target)

    def __len__(self) -> int:
        return self.size


class CIFAR10(VisionDataset):
    """The CIFAR-10 data set, read from the published files in root/cifar-10-batches-py. `download` has no effect.

    Raises DataError if a file is missing.
    """

    base_folder = "cifar-10-batches-py"
    parts = {True: tuple(f"data_batch_{i}" for i in range(1, 6)), False: ("test_batch",)}
    label_names, labels = "label_names", "labels"
    meta = "batches.meta"

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ):
        super().__init__(os.fspath(root), None, transform, target_transform)
        self.train = train
        folder = pathlib.Path(self.root) / self.base_folder
        batches = [read_plain_pickle(folder / name) for name in self.parts[train]]
        # The files store colour planes, while images have channels last.
        rows = np.concatenate([np.asarray(b["data"], np.uint8).reshape(-1, 3, 32, 32) for b in batches])
        self.data = np.ascontiguousarray(rows.transpose(0, 2, 3, 1))
        self.targets: list[int] = [int(label) for b in batches for label in b[self.labels]]
        self.classes: list[str] = list(read_plain_pickle(folder / self.meta)[self.label_names])
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transformed(functional.require_pillow().fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Return the split, "Train" or "Test"."""
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """The CIFAR-100 data set, read from the published files in root/cifar-100-python."""

    base_folder = "cifar-100-python"
    parts = {True: ("train",), False: ("test",)}
    label_names, labels = "fine_label_names", "fine_labels"
    meta = "meta"


def read_plain_pickle(path: pathlib.Path) -> dict[str, Any]:
    """Return a pickled dict of text, numbers, lists and arrays. No code of the file is executed.

    Raises DataError if the file is missing or contains other objects.
    """
    if not path.is_file():
        raise DataError(
            f"{path} does not exist", where=source.where(), hint="Unpack the archive of the data set there."
        )
    with open(path, "rb") as f:
        content: dict[str, Any] = ObjectReader(None, weights_only=False).run(f)
    return content
