"""The parts of the `torch` API that `lazytensor` does not define."""
