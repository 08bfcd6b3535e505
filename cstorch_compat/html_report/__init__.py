"""The HTML report on a script's steps: one self-contained file."""
