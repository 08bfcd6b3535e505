"""The documents: a reference from docstrings, and the links in it and in our texts.

`python -m tests.documents FOLDER` writes the reference of every module into a folder (extra `docs`) and lists broken
links.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"<img\s[^>]*?src=\"([^\"]+)\"")


class _Page(HTMLParser):
    """The places that a page has, and those that it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.places.add(value)
            if value and name == "href" and tag == "a":
                self.links.append(value)


def write_reference(folder: pathlib.Path, modules: Sequence[str]) -> None:
    """Pages of some modules and of all that is in them; a name behind ! is left out."""
    command = [sys.executable, "-W", "ignore", "-m", "pdoc", "--docformat", "markdown", "-o", str(folder), *modules]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def modules() -> list[str]:
    """Every module of the three packages: a package that says what it offers would hide those in it."""
    paths = (p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py")) if p.stem != "__main__")
    return [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in paths]


def broken_pages(folder: pathlib.Path) -> Iterator[str]:
    """Links between pages of a folder that lead nowhere."""
    pages = {}
    for path in folder.rglob("*.html"):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("http://", "https://", "mailto:")):
                continue
            file, _, place = link.partition("#")
            # What begins with an underscore is no part of the reference, and may be the type of what is.
            if any(part.startswith("_") for part in place.split(".")):
                continue
            target = pages.get((path.parent / file).resolve() if file else path)
            if target is None or (place and place not in target.places):
                yield f"{path.name}: {link}"


def texts() -> Iterator[tuple[pathlib.Path, str]]:
    """Our texts in Markdown: documents, and cells of notebooks."""
    folders = (ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), ROOT.glob("*/README.md"))
    for path in (path for folder in folders for path in folder):
        yield path, path.read_text(encoding="utf-8")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        yield path, "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def broken_texts() -> Iterator[str]:
    """Links of our texts to files that are not there, or to headings that they do not have."""
    for path, text in texts():
        for link in (*LINK.findall(text), *PICTURE.findall(text)):
            if link.startswith(("http://", "https://", "mailto:")):
                continue
            file, _, place = link.partition("#")
            target = path.parent / file if file else path
            if not target.exists() or (place and place not in _headings(target)):
                yield f"{path.relative_to(ROOT)}: {link}"


def _headings(path: pathlib.Path) -> set[str]:
    """The anchors of a document, spelled as code hosts spell them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    write_reference(target, modules())
    lost = list(broken_pages(target))
    print(*lost, f"{len(list(target.rglob('*.html')))} pages in {target}, {len(lost)} broken links", sep="\n")
    sys.exit(bool(lost))
