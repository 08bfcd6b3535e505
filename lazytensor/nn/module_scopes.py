"""Names of modules in graphs: what each call adds to the path of the calls around it."""

from lazytensor.nn.module import Module


def name_scopes(module: Module, root: str) -> None:
    """Have the operations of a module and those inside of it carry their paths, below `root`."""
    parts = dict(module.named_modules())
    for path, part in parts.items():
        outer, _, name = path.rpartition(".")
        # A ModuleList has no forward and is never called: those inside say its name with their own.
        while outer and type(parts[outer]).forward is Module.forward:
            outer, _, piece = outer.rpartition(".")
            name = f"{piece}.{name}"
        part.__dict__["_scope"] = name or root
