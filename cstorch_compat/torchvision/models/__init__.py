"""`torchvision.models`: architectures as they were published, with torchvision's initial values under the same seed."""
