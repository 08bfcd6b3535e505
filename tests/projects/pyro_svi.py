"""Fit a small Bayesian regression by pyro's stochastic variational inference.

Packages: pyro-ppl, pyro-api, opt_einsum, tqdm.
"""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal


def model(x, y=None):
    """A linear regression with normal priors."""
    weight = pyro.sample("weight", dist.Normal(torch.zeros(3), torch.ones(3)).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 10.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
    with pyro.plate("data", x.shape[0]):
        return pyro.sample("y", dist.Normal(x @ weight + bias, scale), obs=y)


def guide(x, y=None):
    """A factorized guide with constrained parameters."""
    loc = pyro.param("loc", torch.zeros(3))
    spread = pyro.param("spread", torch.full((3,), 0.1), constraint=dist.constraints.positive)
    pyro.sample("weight", dist.Normal(loc, spread).to_event(1))
    pyro.sample("bias", dist.Delta(pyro.param("bias_value", torch.tensor(0.0))))
    pyro.sample("scale", dist.Delta(pyro.param("scale_value", torch.tensor(1.0), constraint=dist.constraints.positive)))


def main():
    torch.manual_seed(0)
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    x = torch.randn(20, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3
    first = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    second = SVI(model, AutoDiagonalNormal(model), pyro.optim.ClippedAdam({"lr": 0.02}), Trace_ELBO(num_particles=2))
    for _ in range(5):
        print(first.step(x, y) + second.step(x, y))


main()
