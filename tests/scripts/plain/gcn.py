"""A graph convolutional network labels the nodes of a random graph: messages along edges by index_add."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
NODES, EDGES, FEATURES, CLASSES = 600, 4000, 128, 5
torch.manual_seed(0)


class Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, source, target, weight):
        messages = self.linear(x)[source] * weight[:, None]
        return torch.zeros(len(x), messages.shape[1]).index_add(0, target, messages) + self.bias


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Convolution(FEATURES, 32), Convolution(32, CLASSES)

    def forward(self, x, *graph):
        x = F.dropout(F.relu(self.first(x, *graph)), 0.5, self.training)
        return F.log_softmax(self.second(x, *graph), dim=-1)


labels = torch.randint(0, CLASSES, (NODES,))
features = (torch.rand(NODES, FEATURES) < 0.05 + 0.1 * F.one_hot(labels, CLASSES).repeat(1, 26)[:, :FEATURES]).float()
source = torch.randint(0, NODES, (EDGES,))
near = labels.argsort(stable=True)[(labels.argsort(stable=True).argsort()[source] + 7) % NODES]
target = torch.where(torch.rand(EDGES) < 0.7, near, torch.randint(0, NODES, (EDGES,)))
loops = torch.arange(NODES)
source, target = torch.cat([source, target, loops]), torch.cat([target, source, loops])
degree = torch.zeros(NODES).index_add(0, target, torch.ones(len(target)))
weight = degree[source].rsqrt() * degree[target].rsqrt()
known = torch.randperm(NODES)[:120]
model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(STEPS):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(features, source, target, weight)[known], labels[known])
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
