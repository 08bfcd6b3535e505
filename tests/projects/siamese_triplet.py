"""github.com/adambielski/siamese-triplet, in the folder siamese-triplet: its losses and its `fit` on random digits."""

import contextlib
import io
import os
import random
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "siamese-triplet"))
from losses import ContrastiveLoss, OnlineContrastiveLoss, OnlineTripletLoss, TripletLoss
from networks import ClassificationNet, EmbeddingNet, SiameseNet, TripletNet
from trainer import train_epoch
from utils import HardNegativePairSelector, RandomNegativeTripletSelector


class Loader(list):
    """Batches, with the data set that `train_epoch` counts."""

    dataset = range(40)


images, labels = torch.Generator().manual_seed(0), np.arange(40) % 5
images = torch.randn(40, 1, 28, 28, generator=images)
target = torch.from_numpy(labels)
CASES = {
    "classification": (lambda: ClassificationNet(EmbeddingNet(), 5), torch.nn.NLLLoss, [(images, target)]),
    "siamese": (
        lambda: SiameseNet(EmbeddingNet()),
        lambda: ContrastiveLoss(1.0),
        [((images[:20], images[20:]), (target[:20] == target[20:].roll(1)).int())],
    ),
    "triplet": (
        lambda: TripletNet(EmbeddingNet()),
        lambda: TripletLoss(1.0),
        [((images[:10], images[5:15], images[11:21]), [])],
    ),
    "online pairs": (
        EmbeddingNet,
        lambda: OnlineContrastiveLoss(1.0, HardNegativePairSelector()),
        [(images, target)],
    ),
    "online triplets": (
        EmbeddingNet,
        lambda: OnlineTripletLoss(1.0, RandomNegativeTripletSelector(1.0)),
        [(images, target)],
    ),
}
for name, (make_model, make_loss, batches) in CASES.items():
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(0)
    model, loss = make_model(), make_loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(5):
        with contextlib.redirect_stdout(io.StringIO()):
            value, _ = train_epoch(Loader(batches), model, loss, optimizer, False, 100, [])
        print(name, value)
