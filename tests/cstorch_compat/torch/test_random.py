"""Random numbers of both releases of PyTorch, in the vendor's device scope too, and the constructors of old."""

import json
import pathlib

import pytest

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "torch_numbers.json").read_text())
"""What PyTorch 2.4.0 and 2.13.0 draw for an expression after manual_seed(0), and, by "scope: expression", what
cerebras_pytorch 2.10.0 draws inside of `with backend.device:` on the CPU. Where both agree it stands there twice."""
SCOPED = {name.removeprefix("scope: "): numbers for name, numbers in RECORDED.items() if name.startswith("scope: ")}
DRAWS = {name: numbers for name, numbers in RECORDED.items() if not name.startswith("scope: ")}
COMPARE = """
def same(expression, drawn, expected):
    drawn = (drawn.double() if drawn.dtype in (torch.float16, torch.bfloat16) else drawn).tolist()
    if isinstance(drawn[0], float):
        ok = all(abs(a - b) <= 4e-7 * max(abs(b), 1) for a, b in zip(drawn, expected, strict=True))
    else:
        ok = drawn == expected
    assert ok, (expression, drawn, expected)
"""


@pytest.mark.parametrize(
    ("release", "options"), [("2.13", ("--numbers", "2.13")), ("2.4", ()), ("2.4", ("--numbers", "2.4"))]
)
def test_numbers_are_those_of_the_release_that_was_chosen(script, release, options):
    table = {name: numbers[release] for name, numbers in DRAWS.items()}
    body = f"""
for expression, expected in {table!r}.items():
    torch.manual_seed(0)
    same(expression, eval(expression).detach(), expected)
"""
    done = script(COMPARE + body, options=options)
    assert done.returncode == 0, done.stderr


def test_a_plain_script_draws_the_numbers_of_the_latest_pytorch(script):
    done = script("import torch\ntorch.manual_seed(0)\nprint(torch.empty(3).bernoulli_(0.3).tolist())", preamble="")
    assert done.stdout == "[0.0, 0.0, 0.0]\n", done.stderr


@pytest.mark.parametrize("backend", ["CPU", "CSX"])
def test_each_call_under_the_device_of_a_backend_draws_from_a_generator_of_its_own(script, backend):
    body = f"""
backend = cstorch.backend("{backend}")
for expression, expected in {SCOPED!r}.items():
    torch.manual_seed(0)
    with backend.device:
        drawn = eval(expression).to("cpu")
    same(expression, drawn.detach(), expected)
torch.manual_seed(0)
with backend.device:
    with backend.device:
        pass
print(torch.rand(1).item())
"""
    done = script(COMPARE + body)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0.49625658988952637\n"  # without a draw in it a scope seeds nothing


def test_steps_of_the_cpu_backend_draw_as_pytorch_does(script):
    done = script(
        """
        model = cstorch.compile(nn.Dropout(0.3), cstorch.backend("CPU"))
        @cstorch.trace
        def step(batch):
            return model(torch.ones(8)), torch.rand(2), torch.empty(2).exponential_()
        torch.manual_seed(0)
        expected = [(F.dropout(torch.ones(8), 0.3), torch.rand(2), torch.empty(2).exponential_()) for _ in range(3)]
        torch.manual_seed(0)
        @cstorch.step_closure
        def compare(drawn, i):
            assert all(torch.equal(a, b) for a, b in zip(drawn, expected[i], strict=True)), i
        executor = cstorch.utils.data.DataExecutor(loader(3), num_steps=3)
        for i, batch in enumerate(executor):
            compare(step(batch), i)
        """
    )
    assert done.returncode == 0, done.stderr


LEGACY = {
    "torch.Tensor(2, 3).shape": "torch.Size([2, 3])",
    "torch.Tensor().shape": "torch.Size([0])",
    "torch.Tensor((2, 3)).tolist()": "[2.0, 3.0]",
    "torch.Tensor(torch.Size([2, 3])).shape": "torch.Size([2, 3])",
    "torch.Tensor(np.array([[1, 2]])).tolist()": "[[1.0, 2.0]]",
    "torch.Tensor(np.array(3.0)).shape": "torch.Size([])",
    "torch.Tensor(torch.tensor([1, 2])).dtype": "torch.int64",
    "torch.Tensor([torch.tensor(1.0), torch.tensor(2)]).tolist()": "[1.0, 2.0]",
    "torch.Tensor(True)": "new(): data must be a sequence (got bool)",
    "torch.Tensor(3.5)": "new(): data must be a sequence (got float)",
    "torch.Tensor('abc')": "new(): invalid data type 'str'",
    "torch.Tensor(-1)": "Trying to create tensor with negative dimension -1: [-1]",
    "torch.Tensor([1], device='cuda')": "legacy constructor expects device type: cpu but device type: cuda was passed",
    "torch.FloatTensor(2).dtype": "torch.float32",
    "torch.LongTensor([1.7, 2]).tolist()": "[1, 2]",
    "torch.HalfTensor([1]).type()": "torch.HalfTensor",
    "torch.BoolTensor([1, 0]).tolist()": "[True, False]",
    "torch.BFloat16Tensor([1]).dtype": "torch.bfloat16",
    "torch.cuda.FloatTensor(2)": "type torch.cuda.FloatTensor not available. Torch not compiled with CUDA enabled.",
    "isinstance(torch.ones(1), torch.FloatTensor)": "True",
    "isinstance(torch.ones(1), torch.LongTensor)": "False",
    "isinstance(torch.ones(1), torch.cuda.FloatTensor)": "False",
    "torch.ones(1).type(torch.LongTensor).dtype": "torch.int64",
    "torch.ones(1).type('LongTensor')": "invalid type: 'LongTensor'",
    "torch.ones(1).type(3)": "dtype must be a type, str, or dtype object",
    "torch.ones(2, dtype=torch.int64).new([1.5]).tolist()": "[1]",
    "torch.ones(2).new(2, 3).shape": "torch.Size([2, 3])",
    "(torch.set_default_tensor_type(torch.DoubleTensor), torch.Tensor(1).dtype)[1]": "torch.float64",
    "(torch.set_default_tensor_type('torch.FloatTensor'), torch.zeros(1).dtype)[1]": "torch.float32",
    "torch.set_default_tensor_type(torch.LongTensor)": "only floating-point types are supported as the default type",
    "type(torch.Tensor._make_subclass(nn.Parameter, torch.ones(2), True)).__name__": "Parameter",
    "(torch.ones(2).as_subclass(nn.Parameter)).shape": "torch.Size([2])",
}
"""Expressions, and what PyTorch 2.13.0 says: the value, or the message of the exception."""


def test_constructors_of_old_and_their_types_answer_as_pytorch_does(script):
    body = f"""
import numpy as np
for expression, expected in {LEGACY!r}.items():
    try:
        answer = str(eval(expression))
    except (TypeError, ValueError, RuntimeError) as e:
        answer = getattr(e, "what", str(e))
    assert answer == expected, (expression, answer)
x = torch.tensor([1.0, 2.0])
torch.Tensor(x)[0] = 5
assert x.tolist() == [5.0, 2.0]
class Tagged(torch.Tensor):
    @staticmethod
    def __new__(cls, values, tag):
        return super().__new__(cls, values)
    def __init__(self, values, tag):
        self.tag = tag
t = Tagged([1, 2], "a")
assert type(t) is Tagged and t.tolist() == [1.0, 2.0] and t.tag == "a"
"""
    done = script(body)
    assert done.returncode == 0, done.stderr
