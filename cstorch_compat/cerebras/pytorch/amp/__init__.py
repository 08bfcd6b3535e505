"""`cerebras.pytorch.amp`: casts and loss scaling."""
