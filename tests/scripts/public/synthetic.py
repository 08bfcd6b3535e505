"""Small data that public scripts read: made here, the same on each machine, in the places where each script looks."""

import gzip
import io
import pathlib
import struct
import tarfile

import numpy as np

WORDS = "the a of to and in lattice wafer tensor graph node edge time loss step wave river stone light cloud".split()


def random(seed: int = 0) -> np.random.RandomState:
    """A generator whose numbers are the same in every version of NumPy."""
    return np.random.RandomState(seed)


def mnist(root: pathlib.Path, train: int = 256, test: int = 128) -> None:
    """The four IDX files of MNIST, of noise with a bright row that tells the digit."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    for part, n, seed in (("train", train, 1), ("t10k", test, 2)):
        labels = np.arange(n) % 10
        random(seed).shuffle(labels)
        images = random(seed + 10).randint(0, 60, (n, 28, 28))
        images[np.arange(n), labels * 2 + 4] += 180
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            raw = array.astype(np.uint8)
            head = bytes([0, 0, 8, raw.ndim]) + struct.pack(f">{raw.ndim}I", *raw.shape)
            (folder / f"{part}-{what}-ubyte").write_bytes(head + raw.tobytes())
            # Some loaders look for the packed names.
            with gzip.GzipFile(folder / f"{part}-{what}-ubyte.gz", "wb", mtime=0) as f:
                f.write(head + raw.tobytes())


def image(path: pathlib.Path, side: int, seed: int) -> None:
    """A PNG file of coloured waves and noise."""
    from PIL import Image  # noqa: PLC0415 - needed by few rows

    y, x = np.mgrid[:side, :side] / side
    waves = [np.sin((seed + 2 + c) * 3 * x + (c + 1) * 4 * y + seed) for c in range(3)]
    pixels = 128 + 90 * np.stack(waves, -1) + random(seed).randint(-20, 20, (side, side, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def image_folder(root: pathlib.Path, count: int, side: int, classes: int = 2) -> None:
    """A folder of images for each class."""
    for i in range(count):
        image(root / f"class{i % classes}" / f"{i:03}.png", side + 4 * (i % 3), i)


def text(path: pathlib.Path, words: int, seed: int) -> None:
    """Lines of words."""
    chosen = random(seed).choice(WORDS, words)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f" {' '.join(chosen[i : i + 12])} \n" for i in range(0, words, 12)), encoding="utf-8")


def corpus(folder: pathlib.Path) -> None:
    """The three files of a language model."""
    for name, words, seed in (("train", 3000, 1), ("valid", 500, 2), ("test", 500, 3)):
        text(folder / f"{name}.txt", words, seed)


def cora(path: pathlib.Path, papers: int = 1700, words: int = 40, cites: int = 4000) -> None:
    """A packed graph of papers with words, classes and citations, as the Cora data set lies on its server."""
    r = random(5)
    labels = r.randint(0, 7, papers)
    counts = (r.rand(papers, words) < 0.1 + 0.3 * (np.arange(words) % 7 == labels[:, None])).astype(int)
    content = "".join(f"{100 + i}\t" + "\t".join(map(str, counts[i])) + f"\tclass{labels[i]}\n" for i in range(papers))
    pairs = {tuple(p) for p in r.randint(0, papers, (cites, 2)).tolist()}
    cited = "".join(f"{100 + a}\t{100 + b}\n" for a, b in sorted(pairs))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, body in (("cora/cora.content", content), ("cora/cora.cites", cited)):
            info = tarfile.TarInfo(name)
            info.size = len(body.encode())
            archive.addfile(info, io.BytesIO(body.encode()))


def requests_module(folder: pathlib.Path, served: pathlib.Path) -> None:
    """A module `requests` that serves one file whatever it is asked for, so that nothing is downloaded."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requests.py").write_text(
        "import contextlib\n\n"
        "class _Answer(contextlib.AbstractContextManager):\n"
        f"    def __init__(self): self.raw = open({str(served)!r}, 'rb')\n"
        "    def __exit__(self, *_): self.raw.close()\n\n"
        "def get(url, **_): return _Answer()\n",
        encoding="utf-8",
    )


def waves(folder: pathlib.Path, count: int = 8, length: int = 40) -> None:
    """A script that writes short sine waves with torch.save, for a script that reads them with torch.load."""
    (folder / "short_waves.py").write_text(
        "import numpy as np\nimport torch\n\n"
        f"r = np.random.RandomState(2)\nx = np.arange({length}) + r.randint(-80, 80, {count}).reshape(-1, 1)\n"
        "with open('traindata.pt', 'wb') as f:\n    torch.save(np.sin(x / 20.0), f)\n",
        encoding="utf-8",
    )


def seeded(folder: pathlib.Path) -> None:
    """A script that seeds PyTorch and runs main.py, for a script that does not seed it."""
    (folder / "seeded.py").write_text(
        "import runpy\nimport torch\n\ntorch.manual_seed(1)\nrunpy.run_path('main.py', run_name='__main__')\n",
        encoding="utf-8",
    )


def style_model(folder: pathlib.Path) -> None:
    """A script that saves the initial state of the style network."""
    (folder / "initial_model.py").write_text(
        "import sys\nsys.path.insert(0, 'neural_style')\nimport torch\nfrom transformer_net import TransformerNet\n\n"
        "torch.manual_seed(3)\ntorch.save(TransformerNet().state_dict(), 'initial.pth')\n",
        encoding="utf-8",
    )


def vgg_weights(folder: pathlib.Path) -> None:
    """A script that puts weights of VGG16 where torch.hub looks for those of the web."""
    (folder / "weights.py").write_text(
        "import os\nimport torch\nimport torchvision\n\ntorch.manual_seed(4)\n"
        "path = os.path.join(torch.hub.get_dir(), 'checkpoints', 'vgg16-397923af.pth')\n"
        "os.makedirs(os.path.dirname(path), exist_ok=True)\n"
        "torch.save(torchvision.models.vgg16().state_dict(), path)\n",
        encoding="utf-8",
    )
