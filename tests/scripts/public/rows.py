"""What is run of each public repository: entry points as they stand, with options that keep them short."""

import pathlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.scripts.public import synthetic

Prepare = Callable[[pathlib.Path], None]


@dataclass(frozen=True)
class Row:
    """One entry point. Commands run one after the other in `folder` of the repository's copy."""

    name: str
    repository: str
    folder: str
    commands: tuple[str, ...]
    prepare: Prepare = lambda folder: None
    is_endless: bool = False
    """Whether it goes on until something is learned: it is stopped after the prints that are compared."""
    is_chaotic: bool = False
    """Whether its steps are so large that roundings grow into the prints: how far PyTorch's own runs part is known."""
    pictures: tuple[str, ...] = ()
    """Files of pictures that it writes, whose means are compared as one more print each."""
    packages: tuple[str, ...] = ()
    """What has to be installed besides."""


def _mnist(folder: pathlib.Path) -> None:
    synthetic.mnist(folder.parent / "data")


def _ten_mnist(folder: pathlib.Path) -> None:
    synthetic.mnist(folder / "data", 64, 32)


def _vae(folder: pathlib.Path) -> None:
    _mnist(folder)
    (folder / "results").mkdir(exist_ok=True)


def _graph(folder: pathlib.Path) -> None:
    synthetic.cora(folder / "cora.tgz")
    synthetic.requests_module(folder, folder / "cora.tgz")


def _style(folder: pathlib.Path) -> None:
    synthetic.image(folder / "content.png", 64, 3)
    synthetic.image(folder / "style.png", 48, 4)
    synthetic.image_folder(folder / "pictures", 4, 48, 1)
    synthetic.style_model(folder)
    synthetic.vgg_weights(folder)


def _super_resolution(folder: pathlib.Path) -> None:
    for part, seed in (("train", 1), ("test", 2)):
        synthetic.image(folder / "dataset/BSDS300/images" / part / "0.png", 72, seed)


def _imagenet(folder: pathlib.Path) -> None:
    for part in ("train", "val"):
        synthetic.image_folder(folder / "pictures" / part, 6 if part == "train" else 4, 72)


def _words(model: str) -> tuple[str, ...]:
    size = "--data corpus --emsize 16 --nhid 16 --batch_size 10 --bptt 12"
    return (
        f"main.py --model {model} {size} --epochs 2 --log-interval 3 --lr 5 --nhead 2",
        "generate.py --data corpus --words 60 --log-interval 4",
    )


def _language(model: str) -> Row:
    return Row(
        f"word_language_model {model}",
        "examples",
        "word_language_model",
        _words(model),
        lambda folder: synthetic.corpus(folder / "corpus"),
    )


def _characters(folder: pathlib.Path) -> None:
    synthetic.text(folder / "data/shakespeare_char/input.txt", 4000, 7)
    synthetic.requests_module(folder, folder / "data/shakespeare_char/input.txt")
    # Only imported, where the characters of the data are the tokens.
    (folder / "tiktoken.py").write_text("")


_GPT = "--device=cpu --n_layer=2 --n_head=2 --n_embd=32 --block_size=16 --batch_size=4 --dataset=shakespeare_char"
_TRAIN = f"train.py config/train_shakespeare_char.py {_GPT} --log_interval=1 --eval_interval=8 --eval_iters=2"

EXAMPLES = (
    Row("mnist", "examples", "mnist", ("main.py --epochs 2 --batch-size 16 --log-interval 2 --save-model",), _mnist),
    Row("mnist_rnn", "examples", "mnist_rnn", ("main.py --epochs 2 --batch-size 32 --log-interval 1",), _mnist),
    Row(
        "mnist_forward_forward",
        "examples",
        "mnist_forward_forward",
        ("main.py --epochs 10 --log-interval 1 --train_size 64 --test_size 32",),
        _ten_mnist,
        is_chaotic=True,
    ),
    Row(
        "mnist_hogwild",
        "examples",
        "mnist_hogwild",
        ("main.py --epochs 1 --num-processes 1 --log-interval 1 --batch-size 32",),
        _mnist,
    ),
    Row("regression", "examples", "regression", ("seeded.py",), synthetic.seeded),
    Row(
        "siamese_network",
        "examples",
        "siamese_network",
        ("main.py --epochs 1 --batch-size 8 --test-batch-size 32 --log-interval 1",),
        lambda folder: synthetic.mnist(folder.parent / "data", 160, 64),
        is_chaotic=True,
    ),
    Row(
        "vae",
        "examples",
        "vae",
        ("main.py --epochs 2 --batch-size 16 --log-interval 1",),
        _vae,
        pictures=("results/sample_1.png",),
    ),
    Row(
        "dcgan folder",
        "examples",
        "dcgan",
        (
            "main.py --dataset folder --dataroot pictures --manualSeed 1 --batchSize 4 --ngf 8 --ndf 8 --niter 4 "
            "--workers 0",
        ),
        lambda folder: synthetic.image_folder(folder / "pictures", 24, 64),
        pictures=("real_samples.png", "fake_samples_epoch_000.png"),
    ),
    Row(
        "dcgan fake",
        "examples",
        "dcgan",
        ("main.py --dataset fake --manualSeed 2 --batchSize 4 --ngf 8 --ndf 8 --dry-run",),
    ),
    Row(
        "fast_neural_style eval",
        "examples",
        "fast_neural_style",
        (
            "initial_model.py",
            "neural_style/neural_style.py eval --content-image content.png --model initial.pth --output-image out.png",
        ),
        _style,
        pictures=("out.png",),
    ),
    Row(
        "imagenet",
        "examples",
        "imagenet",
        ("main.py pictures --seed 1 --epochs 1 -b 2 -j 0 -p 1",),
        _imagenet,
        is_chaotic=True,
    ),
    Row(
        "super_resolution",
        "examples",
        "super_resolution",
        (
            "main.py --upscale_factor 3 --batchSize 1 --testBatchSize 1 --nEpochs 3 --lr 0.001 --threads 0",
            "super_resolve.py --input_image dataset/BSDS300/images/test/0.png --model model_epoch_2.pth "
            "--output_filename out.png",
        ),
        _super_resolution,
        pictures=("out.png",),
        packages=("six",),
    ),
    Row(
        "time_sequence_prediction",
        "examples",
        "time_sequence_prediction",
        ("short_waves.py", "train.py --steps 1"),
        synthetic.waves,
    ),
    Row("generate_sine_wave", "examples", "time_sequence_prediction", ("generate_sine_wave.py",)),
    *map(_language, ("RNN_TANH", "RNN_RELU", "LSTM", "GRU", "Transformer")),
    Row("gcn", "examples", "gcn", ("main.py --epochs 20 --val-every 1",), _graph),
    Row("gat", "examples", "gat", ("main.py --epochs 3 --val-every 1 --hidden-dim 8 --num-heads 2",), _graph),
    Row(
        "reinforce",
        "examples",
        "reinforcement_learning",
        ("reinforce.py --log-interval 1",),
        is_endless=True,
        packages=("gymnasium",),
    ),
    Row(
        "actor_critic",
        "examples",
        "reinforcement_learning",
        ("actor_critic.py --log-interval 1",),
        is_endless=True,
        packages=("gymnasium",),
    ),
    Row("distributed ddp", "examples", "distributed/ddp", ("example.py",)),
)
NANO = (
    Row(
        "nanoGPT train, sample",
        "nanoGPT",
        ".",
        (
            "data/shakespeare_char/prepare.py",
            f"{_TRAIN} --max_iters=16 --dropout=0.2 --compile=False",
            f"{_TRAIN} --max_iters=18 --dropout=0.0 --compile=False --init_from=resume",
            "sample.py --device=cpu --out_dir=out-shakespeare-char --num_samples=2 --max_new_tokens=40",
        ),
        _characters,
    ),
    Row(
        "nanoGPT bench",
        "nanoGPT",
        ".",
        ("bench.py --device=cpu --real_data=False --batch_size=1 --block_size=8 --compile=False --profile=True",),
    ),
)
ROWS = (*EXAMPLES, *NANO)
