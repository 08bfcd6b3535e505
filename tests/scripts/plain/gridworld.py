"""REINFORCE with a baseline finds the way through a grid: sampled actions, episodes of different lengths."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
SIZE, LIMIT = 5, 20
MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]
torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SIZE * SIZE, 32), nn.ReLU())
        self.policy, self.value = nn.Linear(32, 4), nn.Linear(32, 1)

    def forward(self, state):
        h = self.body(state)
        return Categorical(logits=self.policy(h)), self.value(h).squeeze(-1)


def observe(row, column):
    return F.one_hot(torch.tensor(row * SIZE + column), SIZE * SIZE).float()


def episode(agent):
    row, column = 0, 0
    chances, values, rewards = [], [], []
    for _ in range(LIMIT):
        policy, value = agent(observe(row, column))
        action = policy.sample()
        chances.append(policy.log_prob(action))
        values.append(value)
        down, right = MOVES[action.item()]
        row, column = min(max(row + down, 0), SIZE - 1), min(max(column + right, 0), SIZE - 1)
        is_at_goal = (row, column) == (SIZE - 1, SIZE - 1)
        rewards.append(1.0 if is_at_goal else -0.05)
        if is_at_goal:
            break
    return torch.stack(chances), torch.stack(values), rewards


agent = Agent()
optimizer = torch.optim.RMSprop(agent.parameters(), lr=2e-3)
for _ in range(STEPS):
    chances, values, rewards = episode(agent)
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total = reward + 0.95 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    advantage = returns - values.detach()
    loss = -(chances * advantage).mean() + 0.5 * F.smooth_l1_loss(values, returns)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
