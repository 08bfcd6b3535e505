"""The rules of the check as a page. Each example is a planted fault of the tests, which check that it is found."""

from cstorch_compat.check.rules import RULES, CheckRule
from tests.cstorch_compat.check.faults import FAULTS, Fault

PLACES = {
    "layers": "in the model's __init__",
    "forward": "in the model's forward",
    "before": "at the top of the script",
    "setup": "before the loop",
    "step": "in the traced step",
    "loop": "in the training loop",
}


def rules() -> str:
    """Return a section for each rule, in the order of their numbers."""
    examples: dict[str, Fault] = {}
    for fault in FAULTS:
        examples.setdefault(fault.rule, fault)
    return "\n\n".join(_section(rule, examples.get(rule.id)) for rule in sorted(RULES.values(), key=lambda r: r.id))


def _section(rule: CheckRule, fault: Fault | None) -> str:
    example = f"```python\n{_code(fault)}\n```" if fault else "No example can be put into the frame above: it is no plain script."
    return (
        f"### {rule.id}: {_plain(rule.title)} {{ #{rule.id} }}\n\n"
        f"**{rule.severity}.** {_plain(rule.why)}\n\n**Do:** {_plain(rule.way_out)}\n\n{example}\n\n"
        f"Source: {_plain(rule.source)}."
    )


def _code(fault: Fault) -> str:
    blocks = [(PLACES[slot], code) for slot, code in (*fault.extra, (fault.slot, fault.code)) if code]
    parts = [f"# {place}\n{code}" for place, code in blocks]
    for old, new in fault.replaces:
        kept = "\n".join(f"#     {line.strip()}" for line in old.strip().splitlines())
        written = "\n".join(line.removeprefix("    ") for line in new.splitlines()).strip() or "# (nothing)"
        # A line that the frame has already is marked: that is where the finding is reported.
        parts.append(written if old.strip() == new.split("  # fault")[0].strip() else f"# instead of\n{kept}\n{written}")
    return "\n\n".join(parts).replace("# fault", "# <- reported here")


def _plain(text: str) -> str:
    """Escape what Markdown would read as markup outside of code."""
    pieces = text.split("`")
    return "`".join(p if i % 2 else p.replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;") for i, p in enumerate(pieces))
