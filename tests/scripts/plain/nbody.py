"""Bodies attract each other: leapfrog integration with forces by automatic differentiation of the potential."""

import sys

import torch

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
BODIES = 64
torch.manual_seed(0)


def potential(place, mass):
    difference = place[:, None] - place[None, :]
    distance = (difference.square().sum(-1) + 0.05).sqrt()
    pairs = mass[:, None] * mass[None, :] / distance
    return -torch.triu(pairs, diagonal=1).sum()


def acceleration(place, mass):
    place = place.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(potential(place, mass), place)
    return -gradient / mass[:, None]


place, speed = torch.randn(BODIES, 3), 0.3 * torch.randn(BODIES, 3)
mass = torch.rand(BODIES) / BODIES + 0.01
force = acceleration(place, mass)
for _ in range(STEPS):
    speed = speed + 0.005 * force
    place = place + 0.01 * speed
    force = acceleration(place, mass)
    speed = speed + 0.005 * force
    energy = 0.5 * (mass * speed.square().sum(-1)).sum() + potential(place, mass)
    print("loss", repr(energy.item()))
