"""The package `torchvision.transforms`."""
