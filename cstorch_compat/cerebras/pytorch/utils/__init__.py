"""`cerebras.pytorch.utils`."""
