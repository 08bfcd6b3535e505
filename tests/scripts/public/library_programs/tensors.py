"""safetensors: a state_dict written, read whole, read by name, and loaded into a model."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
state = {**net.state_dict(), "half": torch.randn(3).bfloat16(), "flag": torch.tensor([True, False])}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net.safetensors")
    save_file(state, path, metadata={"format": "pt"})
    back = load_file(path)
    print("equal", all(torch.equal(back[k], v) and back[k].dtype == v.dtype for k, v in state.items()))
    with safe_open(path, framework="pt", device="cpu") as f:
        print("keys", *sorted(f.keys()), f.metadata())
        print("slice", f.get_slice("0.weight")[1:, :2].tolist() == state["0.weight"][1:, :2].tolist())
        print("tensor", torch.equal(f.get_tensor("half"), state["half"]))
    print("bytes", torch.equal(load(save({"x": state["half"]}))["x"], state["half"]))
    other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    save_model(net, path)
    print("model", load_model(other, path), torch.equal(other[0].weight, net[0].weight))
