"""The passes, one for each file: a graph becomes kernel calls and loop nests, and these an ordered program."""
