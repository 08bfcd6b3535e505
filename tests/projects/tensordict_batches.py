"""Train on batches that are TensorDicts.

Packages: tensordict, cloudpickle, orjson, pyvers, importlib_metadata, zipp.
"""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential


def main():
    torch.manual_seed(0)
    data = TensorDict({"x": torch.randn(20, 4), "nested": {"y": torch.randn(20, 2)}}, batch_size=[20])
    model = TensorDictSequential(
        TensorDictModule(torch.nn.Linear(4, 8), in_keys=["x"], out_keys=["hidden"]),
        TensorDictModule(torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(8, 2)), ["hidden"], [("out", "y")]),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for k in range(5):
        batch = data[4 * k : 4 * k + 4].clone()
        optimizer.zero_grad()
        model(batch)
        loss = (batch["out", "y"] - batch["nested", "y"]).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
    stacked = torch.stack([data[:3], data[3:6]])
    assert stacked.batch_size == (2, 3) and stacked["nested", "y"].shape == (2, 3, 2)
    assert torch.cat([data, data]).shape == (40,) and data.reshape(4, 5)["x"].shape == (4, 5, 4)
    assert (data.apply(lambda t: t + 1) - data).sum()["x"].item() == 80


main()
