"""The API of releases 1.2 to 1.8: plain PyTorch loops inside a `Session`."""
