"""github.com/AntixK/PyTorch-VAE, in the folder PyTorch-VAE: its models and their losses on random images."""

import os
import random
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "PyTorch-VAE"))
from models import vae_models

SIZES = {"in_channels": 3, "latent_dim": 16}
MODELS = {
    "VanillaVAE": {},
    "BetaVAE": {"gamma": 10.0, "max_capacity": 25, "Capacity_max_iter": 10000, "loss_type": "B"},
    "GammaVAE": {"gamma_shape": 8.0, "prior_shape": 2.0, "prior_rate": 1.0},
    "WAE_MMD": {"reg_weight": 5000, "kernel_type": "rbf"},
    "ConditionalVAE": {"num_classes": 40},
    "HVAE": {"latent1_dim": 16, "latent2_dim": 16, "pseudo_input_size": 64},
    "MSSIMVAE": {},
    "CategoricalVAE": {
        "categorical_dim": 10,
        "temperature": 0.5,
        "anneal_rate": 3e-5,
        "anneal_interval": 2,
        "alpha": 1.0,
    },
    "JointVAE": {"categorical_dim": 10, "temperature": 0.5, "anneal_rate": 3e-5, "anneal_interval": 2, "alpha": 10.0},
    "InfoVAE": {"reg_weight": 110, "kernel_type": "imq", "alpha": -9.0, "beta": 10.5},
    "LogCoshVAE": {"alpha": 10.0, "beta": 1.0},
    "SWAE": {"reg_weight": 100, "wasserstein_deg": 2.0, "num_projections": 20, "projection_dist": "normal"},
    "VQVAE": {"embedding_dim": 16, "num_embeddings": 32, "img_size": 64, "beta": 0.25},
    "DIPVAE": {"lambda_diag": 0.05, "lambda_offdiag": 0.1},
    "BetaTCVAE": {"anneal_steps": 10000, "alpha": 1.0, "beta": 6.0, "gamma": 1.0},
    "LVAE": {"latent_dims": [4, 8, 16, 32, 64], "hidden_dims": [8, 16, 32, 64, 128]},
    "FactorVAE": {"gamma": 6.4},
}
"""Names of models, and their arguments other than SIZES."""

for name, arguments in MODELS.items():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(0)
    model = vae_models[name](**SIZES | arguments)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images, labels = torch.rand(4, 3, 64, 64) * 2 - 1, torch.nn.functional.one_hot(torch.arange(4), 40).float()
    for step in range(5):
        optimizer.zero_grad()
        loss = model.loss_function(*model(images, labels=labels), M_N=0.1, optimizer_idx=0, batch_idx=step)["loss"]
        loss.backward()
        optimizer.step()
        print(name, loss.item())
