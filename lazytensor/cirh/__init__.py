"""CIRH, the MLIR dialect of the vendor's front end: spell operations, print graphs, and read and write generic MLIR."""
