"""Checks scripts, one a line of the input, each in a fork of this process: importing everything costs once."""

import argparse
import json
import os
import sys

from cstorch_compat.check import command


def main() -> None:
    for line in sys.stdin:
        answer, tell = os.pipe()
        if os.fork() == 0:
            os.close(answer)
            os.chdir(os.path.dirname(line.strip()))
            keep, sys.stdout = sys.stdout, os.fdopen(tell, "w")
            options = argparse.Namespace(script=line.strip(), args=[], json=True, output=False, api=None)
            status = command.check_script(options)
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
