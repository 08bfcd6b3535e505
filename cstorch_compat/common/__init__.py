"""Layers below the emulated API that know files and numbers but no tensors."""
