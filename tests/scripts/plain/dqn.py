"""Deep Q-learning balances a pole: a network acts for one state at a time, and learns from a replay buffer."""

import collections
import math
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 120
torch.manual_seed(0)
random.seed(0)


class Pole:
    """A cart with a pole: position, speed, angle, and speed of the angle."""

    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, v, angle, turn = self.state
        force, sine, cosine = (10.0 if action else -10.0), math.sin(angle), math.cos(angle)
        push = (force + 0.05 * turn**2 * sine) / 1.1
        twist = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        speed = push - 0.05 * twist * cosine / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * twist]
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21


def network():
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


online, target = network(), network()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
memory, pole = collections.deque(maxlen=2000), Pole()
state, step = pole.reset(), 0
while step < STEPS:
    if random.random() < 0.2:
        action = random.randrange(2)
    else:
        with torch.no_grad():
            action = online(torch.tensor(state).unsqueeze(0)).argmax(dim=1).item()
    after, is_over = pole.step(action)
    memory.append((state, action, 0.0 if is_over else 1.0, after, float(is_over)))
    state = pole.reset() if is_over else after
    if len(memory) < 64:
        continue
    states, actions, rewards, afters, ends = zip(*random.sample(memory, 64), strict=True)
    states, afters = torch.tensor(states), torch.tensor(afters)
    with torch.no_grad():
        best = target(afters).max(dim=1).values
        goal = torch.tensor(rewards) + 0.99 * best * (1 - torch.tensor(ends))
    value = online(states).gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(value, goal)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(online.parameters(), 100)
    optimizer.step()
    if step % 20 == 0:
        target.load_state_dict(online.state_dict())
    print("loss", repr(loss.item()))
    step += 1
