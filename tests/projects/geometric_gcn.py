"""Classify the nodes of a small graph with graph convolutions.

Packages: torch_geometric, aiohttp, jinja2, psutil, xxhash.
"""

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool


class Network(torch.nn.Module):
    """Three kinds of graph layers."""

    def __init__(self):
        super().__init__()
        self.first = GCNConv(6, 8)
        self.second = GATConv(8, 4, heads=2)
        self.third = SAGEConv(8, 3)

    def forward(self, data):
        h = self.first(data.x, data.edge_index).relu()
        h = torch.nn.functional.elu(self.second(h, data.edge_index))
        return self.third(h, data.edge_index)


def main():
    torch.manual_seed(0)
    edges = torch.randint(0, 12, (2, 40))
    data = Data(x=torch.randn(12, 6), edge_index=edges, y=torch.randint(0, 3, (12,)))
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    for _ in range(5):
        optimizer.zero_grad()
        out = model(data)
        loss = torch.nn.functional.cross_entropy(out, data.y)
        pooled = global_mean_pool(out, torch.arange(12) // 6)
        loss = loss + pooled.pow(2).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())


main()
