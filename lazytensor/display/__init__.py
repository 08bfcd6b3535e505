"""How values are shown: tables, printed tensors, and HTML for notebooks."""
