"""Graphs in the formats of others that are files and no text."""
