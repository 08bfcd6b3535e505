"""The Model Zoo's Trainer from a YAML of its form, on synthetic data: a script for either stack.

`modelzoo_trainer.py NET DEVICE PHASE FOLDER`: NET is fc_mnist or gpt2, DEVICE CPU, CSX or CPU-mixed (a CPU in
bfloat16, as CSX always is), PHASE train (10 steps, saved after 5 and at the end), resume (the last 5 from the saved
state) or eval. It prints the losses that the Trainer logs. Needs `cerebras.modelzoo` on PYTHONPATH.
"""

import importlib
import logging
import pathlib
import sys
import types

import h5py
import numpy as np
import yaml

STEPS, SAVED = 10, 5
STRANGERS = (
    "cerebras.modelzoo.trainer.extensions",
    "cerebras.modelzoo.data_preparation.huggingface.HuggingFace_Eli5",
)
COMMON = """
trainer:
  init:
    model_dir: {folder}/model
    seed: 1
    backend: {{backend_type: {device}}}
    model: {model}
    optimizer: {optimizer}
    schedulers:
    - LinearLR: {{initial_learning_rate: {rate}, end_learning_rate: 0.001, total_iters: 10}}
    precision: {{enabled: {half}, loss_scaling_factor: 1.0, max_gradient_norm: 1.0}}
    loop: {{max_steps: {steps}, eval_steps: 2}}
    checkpoint: {{steps: {saved}}}
    logging: {{log_steps: 1}}
    callbacks:
    - ComputeNorm: {{}}
    loggers:
    - ProgressLogger: {{}}
    - TensorBoardLogger: {{}}
  fit:
    train_dataloader: {data}
  validate:
    val_dataloader: {data}
"""
MODELS = {
    "fc_mnist": "{name: fc_mnist, depth: 2, hidden_size: 50, dropout: 0.0, activation_fn: relu, "
    "compute_eval_metrics: true}",
    "gpt2": "{name: gpt2, vocab_size: 61, hidden_size: 32, num_hidden_layers: 2, num_heads: 4, filter_size: 48, "
    "max_position_embeddings: 16, dropout_rate: 0.0, attention_dropout_rate: 0.0, embedding_dropout_rate: 0.0}",
}
OPTIMIZERS = {
    "fc_mnist": "{SGD: {momentum: 0.9}}",
    "gpt2": "{AdamW: {betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1, correct_bias: true}}",
}
RATES = {"fc_mnist": 0.1, "gpt2": 0.003}
DATA = {
    "fc_mnist": "{{data_processor: MNISTDataProcessor, use_fake_data: true, fake_data_seed: 7, batch_size: 4}}",
    "gpt2": "{{data_processor: GptHDF5MapDataProcessor, data_dir: {folder}/data, batch_size: 4, shuffle: true, "
    "shuffle_seed: 3, num_workers: 0}}",
}


def corpus(folder):
    """Sequences of tokens, with a mask and the next tokens, as the Model Zoo's preprocessing leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = np.random.default_rng(5).integers(0, 61, (64, 17), dtype=np.int32)
    samples = np.stack([tokens[:, :-1], np.ones((64, 16), np.int32), tokens[:, 1:]], axis=1)
    with h5py.File(folder / "data-00000.h5", "w") as file:
        file.attrs["n_examples"] = len(samples)
        file.create_dataset("data", data=samples)


def settings(net, device, phase, folder):
    """The configuration, as a file would hold it."""
    data = DATA[net].format(folder=folder)
    backend, _, precision = device.partition("-")
    half = "true" if backend == "CSX" or precision else "false"
    rest = {"model": MODELS[net], "optimizer": OPTIMIZERS[net], "data": data, "half": half, "rate": RATES[net]}
    params = yaml.safe_load(COMMON.format(folder=folder, device=backend, steps=STEPS, saved=SAVED, **rest))
    at = {"resume": SAVED, "eval": STEPS}.get(phase)
    if at is not None:
        where = params["trainer"]["validate" if phase == "eval" else "fit"]
        where["ckpt_path"] = str(folder / "model" / f"checkpoint_{at}.mdl")
    return params


class Losses(logging.Handler):
    """Prints what the Trainer logs of its losses and metrics."""

    is_sticky = True

    def emit(self, record):
        """Print a line of the log if it tells of a loss or a metric."""
        text = record.getMessage()
        if "Loss=" in text:
            print("LOSS", text.split("Step=")[1].split(",")[0], text.split("Loss=")[1].split(",")[0], flush=True)
        elif "eval/" in text or "Avg Eval Loss" in text or "val/" in text:
            print("METRIC", " ".join(text.split()), flush=True)


def main(net, device, phase, place):
    """Run one phase."""
    folder = pathlib.Path(place).absolute()
    if net == "gpt2":
        corpus(folder / "data")
    logging.getLogger().addHandler(Losses())
    # Harnesses and data sets of others, which want packages of their own and are not used here.
    for name in STRANGERS:
        sys.modules[name] = stranger = types.ModuleType(name)
        vars(stranger)[name.rpartition(".")[2]] = None
    trainer = importlib.import_module("cerebras.modelzoo.trainer.utils")
    trainer.run_trainer("eval" if phase == "eval" else "train", settings(net, device, phase, folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
