"""denoising-diffusion-pytorch (pip, with einops, ema-pytorch, accelerate, torchvision): small networks and sampling."""

import random

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D

for name, make in {
    "images": lambda: GaussianDiffusion(
        Unet(dim=16, dim_mults=(1, 2), flash_attn=False), image_size=16, timesteps=20, sampling_timesteps=3
    ),
    "flash": lambda: GaussianDiffusion(
        Unet(dim=16, dim_mults=(1, 2), self_condition=True), image_size=16, timesteps=20, objective="pred_noise"
    ),
    "signals": lambda: GaussianDiffusion1D(Unet1D(dim=16, dim_mults=(1, 2), channels=3), seq_length=32, timesteps=20),
}.items():
    torch.manual_seed(0)
    random.seed(0)
    diffusion = make()
    optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
    data = torch.rand(2, 3, 16, 16) if name != "signals" else torch.rand(2, 3, 32)
    for _ in range(5):
        optimizer.zero_grad()
        loss = diffusion(data)
        loss.backward()
        optimizer.step()
        print(name, loss.item())
    print(name, "sample", diffusion.sample(batch_size=1).abs().mean().item())
