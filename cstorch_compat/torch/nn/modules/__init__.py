"""The layers of `torch.nn.modules` that `lazytensor` does not define."""
