"""Handwritten digits and the transforms that scripts apply to them: the code behind `torchvision`."""
