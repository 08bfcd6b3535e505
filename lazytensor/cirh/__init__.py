"""CIRH, the dialect of the vendor's front end: how a graph is lowered to it, spelled, printed and refused."""
