"""Data structures of the compiler: types, operations, graphs, loop nests and programs. Passes are in other packages."""
