"""The models of `torchvision.models`. With the same seed, initial values are those of torchvision."""
