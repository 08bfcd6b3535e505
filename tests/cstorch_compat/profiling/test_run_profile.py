"""`lazywafer run --profile`: what the host's steps take, and what of it no kernel runs."""

import re

BODY = """
import torch, cerebras.pytorch as cstorch
backend = cstorch.backend("CPU")
model = torch.nn.Linear(8, 4)
net = cstorch.compile(model, backend)
opt = cstorch.optim.SGD(model.parameters(), lr=0.1)
@cstorch.trace
def train(x):
    y = net(x)
    loss = torch.sort(y.flatten())[0][:5].sum()
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss
loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(3, 8)] * 3)
for batch in cstorch.utils.data.DataExecutor(loader, num_steps=3):
    train(batch)
"""


def test_a_profile_lists_what_numpy_runs_with_its_lines(script):
    done = script(BODY, options=("--profile",), preamble="")
    assert done.returncode == 0, done.stderr
    assert "profile of compiled steps on the host: " in done.stdout
    for operation, by, line in (("argsort", "NumPy", 10), ("matmul", "BLAS", 9)):
        row = rf"^ *[\d.]+ +[\d.]+ +\d+  {by} +{operation} +\S*script\.py:{line}$"
        assert re.search(row, done.stdout, re.M), (operation, done.stdout)


def test_a_run_without_compiled_steps_says_so(script):
    assert "no compiled step ran" in script("print('ran')", options=("--profile",), preamble="").stdout


def test_nothing_is_timed_without_the_option(script):
    assert "profile" not in script(BODY, preamble="").stdout
