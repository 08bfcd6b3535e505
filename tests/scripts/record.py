"""Record the losses that scripts print under PyTorch, once: those beside in losses.json, the first ones of the scripts
in `plain` in plain_losses.json.

python tests/scripts/record.py        # in an environment with torch and numpy
"""

import hashlib
import pathlib
import subprocess
import sys

from text import TEXT

HERE = pathlib.Path(__file__).parent
PLAIN_STEPS = 2


def losses(path, *args):
    done = subprocess.run([sys.executable, path, *args], capture_output=True, text=True, check=True)
    return [float(line.split()[1]) for line in done.stdout.splitlines()]


def write(name, lines):
    (HERE / name).write_text("{\n" + ",\n".join(f' "{key}": {value}' for key, value in lines.items()) + "\n}\n")


def main():
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    found = {name: losses(HERE / f"{name}.py") for name in ("mlp", "cnn", "lstm", "transformer")}
    write("losses.json", {"text": f'"{digest}"', **found})
    paths = sorted((HERE / "plain").glob("*.py"))
    write("plain_losses.json", {path.stem: losses(path, str(PLAIN_STEPS)) for path in paths})


if __name__ == "__main__":
    main()
