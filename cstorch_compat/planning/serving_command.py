"""`lazywafer plan --serve`: print how fast a decoder-only model generates text on wafers, and how many users fit."""

import argparse
import os
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

from cstorch_compat.html_report.write_report import write_serving_page
from cstorch_compat.run import script
from lazytensor.errors import LazyError
from lazytensor.system.command_line import comma_separated, one_of, whole_number
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import print_escaped
from wse_sim import WSE2, WSE3, Decoder, ServingPlan, serve
from wse_sim.serving.decoder import PRESETS, find_decoder
from wse_sim.serving.report import serving_table
from wse_sim.serving.serve import MAX_WAFERS, WEIGHT_BITS

MAX_USERS, MAX_TOKENS = 1_000_000, 100_000_000
DOCUMENT_VERSION = 1
"""Version of the JSON document of `--serve --json`."""
_DEFAULTS = {"users": (1,), "prompt": 1024, "generate": 1024, "weight_bits": 16}
_STEP_OPTIONS = ("batch", "workers", "pol", "zeros")
"""Options of `plan` that have no meaning for serving."""

ScriptDecoder = Callable[[argparse.Namespace], Decoder]
"""A function that returns the extents of the model that a script calls."""


def add_serving_arguments(planner: argparse.ArgumentParser) -> None:
    """Add the options of serving to the parser of `plan`."""
    planner.add_argument(
        "--serve",
        action="store_true",
        help="plan inference: SCRIPT is a script with a decoder-only model, a config.json of Hugging Face, or one of "
        + ", ".join(PRESETS),
    )
    users = comma_separated(whole_number(1, MAX_USERS))
    planner.add_argument("--users", type=users, metavar="N,...", help="with --serve: users at a time (default: 1)")
    for name, what in (("--prompt", "tokens of a prompt"), ("--generate", "tokens of an answer")):
        planner.add_argument(
            name, type=whole_number(1, MAX_TOKENS), metavar="N", help=f"with --serve: {what} (default: 1024)"
        )
    planner.add_argument(
        "--weight-bits",
        type=one_of(WEIGHT_BITS),
        choices=WEIGHT_BITS,
        help="with --serve: bits of a weight (default: 16)",
    )


def check_serving_options(options: argparse.Namespace) -> str:
    """Return an error for options that do not belong together, "" if there is none.

    Replaces missing options of serving by their defaults.
    """
    wrong = [n for n in (_STEP_OPTIONS if options.serve else _DEFAULTS) if getattr(options, n) not in (None, (), False)]
    if wrong:
        names = ", ".join("--" + name.replace("_", "-") for name in wrong)
        return f"{names}: only without --serve" if options.serve else f"{names}: only with --serve"
    for name, value in _DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    systems = [n for n in options.systems if n > MAX_WAFERS] if options.serve else []
    return f"--systems: at most {MAX_WAFERS:,} with --serve" if systems else ""


def plan_serving(options: argparse.Namespace, decoder_of_script: ScriptDecoder) -> int:
    """Print the plans of serving, or JSON with `options.json`, and write the page with `options.html`.

    Returns 0; 1 if no combination fits or the page cannot be written; 2 if there is no such script. Raises LazyError
    for an unknown preset and an invalid configuration.
    """
    target = script.target_name(options)
    if _is_script(options):
        if not script.check_target(target):
            return 2
        name, decoder = target, decoder_of_script(options)
    else:
        name, decoder = find_decoder(target)
    plans, refusals = list[ServingPlan](), list[LazyError]()
    for machine, wafers, users in product(options.machine, options.systems or (1,), options.users):
        try:
            plans.append(_plan(name, decoder, options, machine, wafers, users))
        except LazyError as e:
            refusals.append(e)
    if options.json:
        print(json_text(_as_document(name, decoder, plans, refusals), indent=1))
    else:
        _print_plans(plans, refusals)
    if options.html is not None and plans and not _write_page(options, name, plans):
        return 1
    return 0 if plans else 1


def _is_script(options: argparse.Namespace) -> bool:
    """Return whether the target is a script, a module or standard input, and not a preset or a configuration."""
    name = options.script
    if options.is_module or name == script.STDIN_NAME or name.endswith(".py"):
        return True
    return name.lower() not in PRESETS and not name.endswith(".json") and os.path.isfile(name)


def _plan(
    name: str, decoder: Decoder, options: argparse.Namespace, machine: str, wafers: int, users: int
) -> ServingPlan:
    return serve(
        decoder,
        machine,
        name=name,
        wafers=wafers,
        users=users,
        prompt_tokens=options.prompt,
        generated_tokens=options.generate,
        weight_bits=options.weight_bits,
    )


def _print_plans(plans: list[ServingPlan], refusals: list[LazyError]) -> None:
    """Print one plan in full, or a table of several plans with their notes, and then the refusals on stderr."""
    if len(plans) == 1:
        print_escaped(plans[0].text())
    elif plans:
        # Without the first note, the verdict on one plan: the table has the limit of each.
        notes = dict.fromkeys(note for plan in plans for note in plan.notes().splitlines()[1:])
        print_escaped("\n".join((serving_table(plans).text(), "", *_explain_slower_wse3(plans), *notes)))
    for error in refusals:
        print_escaped(f"lazywafer: {error}", sys.stderr)


def _explain_slower_wse3(plans: list[ServingPlan]) -> list[str]:
    """Return one sentence if a user gets fewer tokens on the WSE-3 than on the WSE-2, which surprises most readers."""
    older, newer = (
        {(plan.wafers, plan.users): plan.tokens_per_s_user for plan in plans if plan.machine == machine.name}
        for machine in (WSE2, WSE3)
    )
    if not any(rate < older.get(key, 0) for key, rate in newer.items()):
        return []
    return [
        f"wse3 is slower than wse2 in some rows because its numbers are measured on silicon: {WSE3.hop_cycles:g} "
        f"cycles from router to router, and {WSE3.loaded_setup_cycles:g} before a vector operation outside of loops "
        f"starts. For wse2 they are {WSE2.hop_cycles:g} and {WSE2.loaded_setup_cycles:g}."
    ]


def _as_document(name: str, decoder: Decoder, plans: list[ServingPlan], refusals: list[LazyError]) -> dict[str, Any]:
    return {
        "version": DOCUMENT_VERSION,
        "model": name,
        "decoder": vars(decoder),
        "plans": [plan.as_dict() for plan in plans],
        "refusals": [{"what": e.what, "hint": e.hint} for e in refusals],
    }


def _write_page(options: argparse.Namespace, name: str, plans: list[ServingPlan]) -> bool:
    """Write the HTML page. Return False, with an error on stderr, if that fails."""
    try:
        write_serving_page(options.html, name, plans)
    except OSError as e:
        print_escaped(f"lazywafer: --html cannot be written to {options.html}: {e.strerror or e}", sys.stderr)
        return False
    return True
