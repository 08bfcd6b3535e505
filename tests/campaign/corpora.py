"""The files that a campaign begins with, made on the spot, and who reads them."""

import hashlib
import pathlib
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import lazytensor as lt
from cstorch_compat.ckpt import formats
from cstorch_compat.ckpt.convert import convert
from cstorch_compat.ckpt.leaves import leaves
from cstorch_compat.files import checkpoint
from cstorch_compat.summaries import event_file
from cstorch_compat.torch.serialization import save_and_load
from cstorch_compat.torchvision.datasets import mnist
from lazytensor.core.file_array import LazyArray
from lazytensor.core.tensor import Tensor
from lazytensor.serialization.layout import check_walk

MOST_VALUES = 1 << 16
Read = Callable[[pathlib.Path], Any]


@dataclass(frozen=True)
class Corpus:
    """A format: how a file of it is written, and what reads it. A reader returns a tree of all values."""

    name: str
    write: Callable[[pathlib.Path], None]
    readers: tuple[Read, ...]


def tree() -> dict[str, Any]:
    """What the files hold."""
    return {
        "model": {"weight": lt.tensor(np.arange(24, dtype="f4").reshape(4, 6) / 7), "bias": lt.ones(6)},
        "half": lt.ones(5, dtype=lt.bfloat16),
        "optimizer": [{"step": 3, "lr": 0.25, "name": "adam"}, lt.arange(7)],
        "flag": True,
    }


def _write_h5(path: pathlib.Path) -> None:
    checkpoint.save(tree(), path)


def _write_bare_h5(path: pathlib.Path) -> None:
    # As another program writes it: without the checksums that would stop most changes at once.
    checkpoint.save(tree(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'{"size":')])


def _write_torch(path: pathlib.Path) -> None:
    save_and_load.save(tree(), path)


def _converted(suffix: str) -> Callable[[pathlib.Path], None]:
    def write(path: pathlib.Path) -> None:
        source, target = path.with_suffix(".source.h5"), path.with_suffix(suffix)
        checkpoint.save({"weight": lt.arange(24.0).reshape(4, 6), "ids": lt.arange(9)}, source)
        convert(str(source), str(target), to=None, key=None, flatten=True, force=True)
        source.unlink()
        target.rename(path)

    return write


def _write_idx(path: pathlib.Path) -> None:
    path.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 4, 5, 6) + bytes(range(120)))


def _write_events(path: pathlib.Path) -> None:
    messages = [event_file.encode_event(1.0, 0, event_file.FILE_VERSION_MESSAGE)]
    messages += [
        event_file.encode_event(2.0 + i, i, event_file.encode_scalar_summary("loss", 1.0 / (i + 1))) for i in range(4)
    ]
    messages += [event_file.encode_event(7.0, 5, event_file.encode_text_summary("note", "text"))]
    path.write_bytes(b"".join(map(event_file.encode_record, messages)))


def _read_tool(path: pathlib.Path) -> Any:
    return formats.read(str(path))[1]


def _read_events(path: pathlib.Path) -> Any:
    return [event_file.decode_message(message) for message in event_file.decode_records(path.read_bytes())]


CORPORA = (
    Corpus("h5", _write_h5, (checkpoint.load, _read_tool)),
    Corpus("bare h5", _write_bare_h5, (checkpoint.load, _read_tool)),
    Corpus("torch", _write_torch, (save_and_load.load, _read_tool, checkpoint.load)),
    Corpus("safetensors", _converted(".safetensors"), (checkpoint.load, _read_tool)),
    Corpus("npz", _converted(".npz"), (_read_tool,)),
    Corpus("idx", _write_idx, (lambda path: mnist.read_idx(path, (5, 6)),)),
    Corpus("events", _write_events, (_read_events,)),
)


def fingerprint(value: Any) -> str:
    """A digest of all values in what a reader gave, which reads all of them."""
    # What a file shares often comes back as it is, as from PyTorch; to walk through it is another matter.
    check_walk(value, MOST_VALUES, "the file")
    digest = hashlib.sha256()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, leaf in leaves(value if isinstance(value, Mapping | list | tuple) else [value]):
            digest.update(f"{key} {type(leaf).__name__}".encode(errors="surrogatepass"))
            digest.update(_bytes_of(leaf))
    return digest.hexdigest()


def _bytes_of(leaf: Any) -> bytes:
    if isinstance(leaf, LazyArray):
        leaf = leaf.read()
    elif isinstance(leaf, Tensor):
        leaf = leaf.array()
    if isinstance(leaf, np.ndarray):
        return f"{leaf.dtype} {leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes()
    return repr(leaf).encode(errors="surrogatepass")
