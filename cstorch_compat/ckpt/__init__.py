"""`lazywafer ckpt`: looks into files of tensors, compares them, and converts between their formats."""
