"""Fit an exact Gaussian process with gpytorch.

Packages: gpytorch, linear_operator, jaxtyping, scipy, scikit-learn, mpmath.
"""

import gpytorch
import torch


class Process(gpytorch.models.ExactGP):
    """A Gaussian process with a constant mean and a scaled RBF kernel."""

    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def main():
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 30)
    y = torch.sin(x * 6) + 0.1 * torch.randn(30)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(5):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        mean = likelihood(model(torch.linspace(0, 1, 5))).mean
    assert mean.shape == (5,)


main()
