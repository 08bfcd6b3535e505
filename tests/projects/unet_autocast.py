"""github.com/milesial/Pytorch-UNet, in the folder Pytorch-UNet: its training step on images, also in bfloat16."""

import os
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "Pytorch-UNet"))
from unet import UNet
from utils.dice_score import dice_loss

for amp in (False, True):
    torch.manual_seed(0)
    model = UNet(n_channels=3, n_classes=2, bilinear=amp)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-5, weight_decay=1e-8, momentum=0.999, foreach=True)
    scaler = torch.amp.GradScaler("cpu", enabled=amp)
    images, masks = torch.rand(2, 3, 48, 64), torch.randint(0, 2, (2, 48, 64))
    for _ in range(5):
        with torch.autocast("cpu", enabled=amp):
            predicted = model(images)
            loss = F.cross_entropy(predicted, masks)
            loss += dice_loss(
                F.softmax(predicted, dim=1).float(), F.one_hot(masks, 2).permute(0, 3, 1, 2).float(), multiclass=True
            )
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print("bfloat16" if amp else "float32", loss.item())
