"""The scripts of published runs: each is recorded as it stands, and has the parameters of the model that it names."""

import pytest

from cstorch_compat.planning.published_runs import PLACED_FILE, SCRIPTS, SHARED_FILE, record_run

GPT3 = ("--width", "5120", "--heads", "40", "--dropout", "0", "--batch_size", "720")
# Script, arguments, layers, and the parameters that are published of the model, in millions.
MODELS = {
    "ESM-2 35M": ("esm2.py", (), 12, 33.5),
    "ViT-Base": ("vit.py", (), 12, 86.6),
    "BERT-large": ("bert_large.py", (), 24, 335),
    "GPT-2 small": ("gpt2.py", (), 12, 124),
    "GPT-3 13B": ("gpt2.py", GPT3, 40, 12_853),
    "GPT-J": ("gptj.py", (), 28, 6_053),
    "Llama2-7B": ("llama2_7b.py", (), 32, 6_738),
    "Llama3-8B": ("llama3_8b.py", (), 32, 8_030),
}


def parameters(program):
    """Their number."""
    sizes = {name: program.buffers[start].type.size for name, (start, _) in program.state.items()}
    kinds = ("weight", "bias")
    return sum(n for name, n in sizes.items() if name.startswith("model.") and name.rpartition(".")[2] in kinds)


def test_every_script_of_a_published_run_is_tried():
    scripts = {path.name for path in SCRIPTS.glob("*.py")} - {SHARED_FILE, PLACED_FILE}
    assert scripts == {"fc_mnist.py", *(script for script, *_ in MODELS.values())}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_has_its_parameters(name):
    script, args, layers, millions = MODELS[name]
    one, two = (record_run(script, (*args, "--layers", str(n))).program() for n in (1, 2))
    count = parameters(one) + (layers - 1) * (parameters(two) - parameters(one))
    assert count / 1e6 == pytest.approx(millions, rel=0.01)


def test_fc_mnist_has_its_layers_and_batch():
    program = record_run("fc_mnist.py").program(128)
    assert parameters(program) == 784 * 500 + 500 + 500 * 300 + 300 + 300 * 10 + 10
    assert [program.buffers[b].type.shape for b in program.batch] == [(128, 784), (128,)]


@pytest.mark.slow
def test_evaluation_of_bert_updates_nothing():
    program = record_run("bert_large.py", ("--mode", "eval", "--layers", "1")).program()
    assert all(start == end for start, end in program.state.values())
    assert {instr.direction for instr in program.instrs} == {"forward"}
