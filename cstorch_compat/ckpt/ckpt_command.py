"""The command line of `lazywafer ckpt`."""

import argparse
import sys

from cstorch_compat.ckpt.compare import print_differences
from cstorch_compat.ckpt.convert import convert
from cstorch_compat.ckpt.formats import FORMATS
from cstorch_compat.ckpt.listing import list_file, print_value
from cstorch_compat.ckpt.verify import verify
from lazytensor.errors import CheckpointError
from lazytensor.system.command_line import finite_number, nonempty_text
from lazytensor.system.terminal import print_escaped

FILE = f"a file of tensors ({', '.join(FORMATS)})"
"""The help text for a file argument."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `ckpt` command and its actions to the subparsers `commands`."""
    parser = commands.add_parser("ckpt", help="list, compare, verify and convert files of tensors")
    parser.set_defaults(execute=execute)
    actions = parser.add_subparsers(dest="action", required=True)
    lister = actions.add_parser("ls", help="print the names, types, shapes and sizes in a file")
    lister.add_argument("file", type=nonempty_text, help=FILE)
    lister.add_argument("--json", action="store_true", help="print JSON")
    shower = actions.add_parser("show", help="print one value, or a summary of an array")
    shower.add_argument("file", type=nonempty_text, help=FILE)
    shower.add_argument(
        "key", type=nonempty_text, help="the name of a value as printed by ls, or the leading part of names"
    )
    differ = actions.add_parser("diff", help="print how two files differ; the exit status is 1 if they do")
    differ.add_argument("a", type=nonempty_text, help=FILE)
    differ.add_argument("b", type=nonempty_text, help="the other file, in any format")
    differ.add_argument(
        "--rtol", type=finite_number(0.0), default=0.0, help="tolerance relative to the values of b (default: 0)"
    )
    differ.add_argument("--atol", type=finite_number(0.0), default=0.0, help="absolute tolerance (default: 0)")
    differ.add_argument("--key", type=nonempty_text, help="compare only the values under this name")
    differ.add_argument("--json", action="store_true", help="print JSON")
    verifier = actions.add_parser("verify", help="verify the checksums of a file; the exit status is 1 if one is wrong")
    verifier.add_argument("file", type=nonempty_text, help=FILE)
    converter = actions.add_parser("convert", help="write a file in another format, one array at a time")
    converter.add_argument("source", type=nonempty_text, help=FILE)
    converter.add_argument("target", type=nonempty_text, help="the file to write")
    converter.add_argument("--to", choices=FORMATS, help="the format (default: by the suffix of the target)")
    converter.add_argument("--key", type=nonempty_text, help="convert only the values under this name")
    converter.add_argument("--flatten", action="store_true", help="join nested names with dots")
    converter.add_argument("--force", action="store_true", help="replace the target if it exists")


def execute(options: argparse.Namespace) -> int:
    """Run the action of the command line. Return its exit status, or 2 after printing a CheckpointError or OSError.

    A BrokenPipeError, from a reader that closed the pipe, propagates.
    """
    try:
        return _ACTIONS[options.action](options)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except (CheckpointError, OSError) as e:
        print_escaped(f"lazywafer: {e}", sys.stderr)
        return 2


def _convert(o: argparse.Namespace) -> int:
    written = convert(o.source, o.target, to=o.to, key=o.key, flatten=o.flatten, force=o.force)
    print_escaped(f"{o.target}: {written.name}")
    return 0


_ACTIONS = {
    "ls": lambda o: list_file(o.file, o.json),
    "show": lambda o: print_value(o.file, o.key),
    "diff": lambda o: print_differences(o.a, o.b, o.rtol, o.atol, o.json, o.key),
    "verify": lambda o: verify(o.file),
    "convert": _convert,
}
