"""A GAN with transposed convolutions draws squares: two optimizers, batch norm, leaky ReLU, detached samples."""

import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
NOISE, BATCH = 32, 32
torch.manual_seed(0)

generator = nn.Sequential(
    nn.ConvTranspose2d(NOISE, 64, 4, bias=False),
    nn.BatchNorm2d(64),
    nn.ReLU(inplace=True),
    nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False),
    nn.BatchNorm2d(32),
    nn.ReLU(inplace=True),
    nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
    nn.Tanh(),
)
critic = nn.Sequential(
    nn.Conv2d(1, 32, 4, stride=2, padding=1),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(32, 64, 4, stride=2, padding=1, bias=False),
    nn.BatchNorm2d(64),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(64, 1, 4),
    nn.Flatten(0),
)


def initialise(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def squares():
    line = torch.arange(16)
    corner, side = torch.randint(0, 10, (BATCH, 2, 1, 1)), torch.randint(3, 7, (BATCH, 1, 1))
    rows = (line[:, None] >= corner[:, 0]) & (line[:, None] < corner[:, 0] + side)
    columns = (line >= corner[:, 1]) & (line < corner[:, 1] + side)
    return 2 * (rows & columns).float().unsqueeze(1) - 1


generator.apply(initialise)
critic.apply(initialise)
criterion = nn.BCEWithLogitsLoss()
for_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
for_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
ones, zeros = torch.ones(BATCH), torch.zeros(BATCH)
for _ in range(STEPS):
    critic.zero_grad()
    loss_real = criterion(critic(squares()), ones)
    loss_real.backward()
    drawn = generator(torch.randn(BATCH, NOISE, 1, 1))
    loss_drawn = criterion(critic(drawn.detach()), zeros)
    loss_drawn.backward()
    for_critic.step()

    generator.zero_grad()
    loss = criterion(critic(drawn), ones)
    loss.backward()
    for_generator.step()
    print("loss", repr(loss_real.item() + loss_drawn.item() + loss.item()))
