"""The rules of the check as a page. Each example is a planted fault of the tests, which check that it is found."""

import inspect
import re

from cstorch_compat.check.rules import RULES, CheckRule
from tests.cstorch_compat.check.faults import FAULTS, FRAME, Fault

PLACES = {
    "layers": "in the model's __init__",
    "forward": "in the model's forward",
    "before": "at the top of the script",
    "setup": "before the loop",
    "step": "in the traced step",
    "loop": "in the training loop",
}
NO_EXAMPLE = "[Port a script](../how-to/port-a-script.md) has an example: a script without the Cerebras API."


def rules() -> str:
    """Return a section for each rule, in the order of their numbers."""
    examples: dict[str, Fault] = {}
    for fault in FAULTS:
        examples.setdefault(fault.rule, fault)
    return "\n\n".join(_section(rule, examples.get(rule.id)) for rule in sorted(RULES.values(), key=lambda r: r.id))


def _section(rule: CheckRule, fault: Fault | None) -> str:
    example = f"```python\n{_code(fault)}\n```" if fault else NO_EXAMPLE
    return (
        f"### {rule.id}: {_plain(rule.title)} {{ #{rule.id} }}\n\n"
        f"**{rule.severity.capitalize()}.** {_plain(rule.why)}\n\n**Do:** {_plain(rule.way_out)}\n\n{example}\n\n"
        f"Source: {_plain(rule.source)}."
    )


def _code(fault: Fault) -> str:
    blocks = [(slot, code) for slot, code in (*fault.extra, (fault.slot, fault.code)) if code]
    parts = [f"# {PLACES[slot]}\n{code}" for slot, code in blocks] + [_change(*pair) for pair in fault.replaces]
    return "\n\n".join(parts).replace("# fault", "# <- reported here")


def _change(old: str, new: str) -> str:
    """Return the whole lines that replace lines of the frame; a line that is only marked is shown without them."""
    begin = FRAME.index(old)
    first, last = FRAME.rindex("\n", 0, begin + 1) + 1, FRAME.index("\n", begin + len(old) - 1)
    before = FRAME[first:last]
    after = before.replace(old.rstrip("\n"), new.rstrip("\n"))
    written = inspect.cleandoc("\n" + after).strip() or "# (nothing)"
    if before.strip() == written.split("  # fault")[0]:
        return written
    replaced = "\n".join(f"#     {line.strip()}" for line in before.strip().splitlines())
    return f"# instead of\n{replaced}\n{written}"


def _plain(text: str) -> str:
    """Escape what Markdown would read as markup outside of code."""
    pieces = text.split("`")
    return "`".join(piece if i % 2 else re.sub(r"([*_])", r"\\\1", piece) for i, piece in enumerate(pieces))
