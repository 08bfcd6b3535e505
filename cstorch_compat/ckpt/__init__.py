"""`lazywafer ckpt`: list, compare, verify and convert files of tensors."""
