"""Checks scripts in forks of this process, so that importing costs once.

A line of the input is a JSON object: "folder" to be in, and the options of the command.
"""

import argparse
import importlib
import json
import os
import sys

from cstorch_compat.check import check_command
from cstorch_compat.names import mirror_table

MIRRORS = ("torch", "torch.nn", "torch.nn.functional", "torch.optim", "cerebras.pytorch")
MODULES = (
    "wse_sim",
    "cstorch_compat.cerebras.pytorch.utils.data.repeated_loader",
    "cstorch_compat.cerebras.pytorch.optim.optimizers",
    "tqdm",
)
"""What scripts and backends import: forks share these modules."""


def main() -> None:
    for path in MIRRORS:
        mirror_table.import_sources(path)
    for name in MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        options = json.loads(line)
        answer, tell = os.pipe()
        if os.fork() == 0:
            os.close(answer)
            os.chdir(options.pop("folder"))
            keep, sys.stdout = sys.stdout, os.fdopen(tell, "w")
            status = check_command.check_script(argparse.Namespace(output=False, **options))
            sys.stdout.flush()
            sys.stdout = keep
            os._exit(status)
        os.close(tell)
        with os.fdopen(answer) as f:
            text = f.read()
        _, code = os.wait()
        print(json.dumps({"status": os.waitstatus_to_exitcode(code), "text": text}), flush=True)


if __name__ == "__main__":
    main()
