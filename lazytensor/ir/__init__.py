"""The nouns of the compiler: types, graphs, programs and loop nests; no pass lives here."""
