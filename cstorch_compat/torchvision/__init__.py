"""An emulation of `torchvision`: data sets, image transforms, models and operations."""
