"""Proximal policy optimization moves points to the origin: sampled actions, returns, minibatches, clipped ratios."""

import sys

import torch
import torch.nn as nn
from torch.distributions import Normal

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
POINTS, TIME = 16, 16
torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mean, self.value = nn.Linear(64, 2), nn.Linear(64, 1)
        self.log_deviation = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, state):
        h = self.body(state)
        return Normal(self.mean(h), self.log_deviation.exp()), self.value(h).squeeze(-1)


model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-5)
state = torch.randn(POINTS, 4)
for _ in range(STEPS):
    states, actions, chances, values, rewards = [], [], [], [], []
    with torch.no_grad():
        for _ in range(TIME):
            policy, value = model(state)
            action = policy.sample()
            states.append(state)
            actions.append(action)
            chances.append(policy.log_prob(action).sum(-1))
            values.append(value)
            place, speed = state[:, :2], 0.9 * state[:, 2:] + 0.1 * action.clamp(-1, 1)
            state = torch.cat([(place + 0.1 * speed).clamp(-2, 2), speed], dim=-1)
            rewards.append(-state[:, :2].square().sum(-1))
        _, last = model(state)
        advantage, advantages = torch.zeros(POINTS), []
        for t in reversed(range(TIME)):
            after = values[t + 1] if t + 1 < TIME else last
            advantage = rewards[t] + 0.95 * after - values[t] + 0.95 * 0.9 * advantage
            advantages.insert(0, advantage)
    data = [torch.cat(part) for part in (states, actions, chances, values, advantages)]
    total = 0.0
    for _ in range(2):
        for chosen in torch.randperm(POINTS * TIME).split(64):
            s, a, old, v, gain = (part[chosen] for part in data)
            policy, value = model(s)
            ratio = (policy.log_prob(a).sum(-1) - old).exp()
            normed = (gain - gain.mean()) / (gain.std() + 1e-8)
            surrogate = torch.min(ratio * normed, ratio.clamp(0.8, 1.2) * normed).mean()
            loss = -surrogate + 0.5 * (value - (v + gain)).pow(2).mean() - 0.01 * policy.entropy().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            total += loss.item()
    print("loss", repr(total))
