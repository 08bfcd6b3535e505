"""Save a model with safetensors after each step and train the loaded copy.

Packages: safetensors.
"""

import pathlib
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save, save_file, save_model


def main():
    torch.manual_seed(0)
    x, y = torch.randn(16, 4), torch.randn(16, 2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.safetensors")
        for _ in range(5):
            loss = torch.nn.functional.mse_loss(model(x), y)
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(0.1 * p.grad)
            print(loss.item())
            save_model(model, str(path), metadata={"step": "1"})
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
            assert load_model(model, str(path)) == (set(), [])
        state = {"half": torch.randn(3).bfloat16(), "bool": torch.tensor([True, False]), "long": torch.arange(4)}
        save_file(state, path)
        assert all(torch.equal(v, state[k]) and v.dtype == state[k].dtype for k, v in load_file(path).items())
        with safe_open(path, "pt") as file:
            assert set(file.keys()) == set(state) and file.get_slice("long")[1:3].tolist() == [1, 2]
        assert len(save(state)) > 30


main()
