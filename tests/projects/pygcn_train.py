"""github.com/tkipf/pygcn, in the folder pygcn (needs scipy): its network and utilities on a random graph."""

import os
import sys

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "pygcn"))
from pygcn.models import GCN
from pygcn.utils import accuracy, normalize, sparse_mx_to_torch_sparse_tensor

np.random.seed(0)
torch.manual_seed(0)
edges = np.random.randint(0, 200, (2, 800))
graph = sp.coo_matrix((np.ones(800), edges), shape=(200, 200), dtype=np.float32)
graph = graph + graph.T.multiply(graph < graph.T) - graph.multiply(graph < graph.T)
adjacency = sparse_mx_to_torch_sparse_tensor(normalize(graph + sp.eye(200)))
features = torch.FloatTensor(np.random.rand(200, 50))
labels = torch.LongTensor(np.random.randint(0, 7, 200))
model = GCN(nfeat=50, nhid=16, nclass=7, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(5):
    optimizer.zero_grad()
    output = model(features, adjacency)
    loss = F.nll_loss(output[:140], labels[:140])
    loss.backward()
    optimizer.step()
    print(loss.item(), accuracy(output[:140], labels[:140]).item())
