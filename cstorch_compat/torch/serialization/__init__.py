"""The API of `torch.save`, `torch.load` and `torch.serialization`, with objects of any class and older formats."""
