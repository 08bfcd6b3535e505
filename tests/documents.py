"""The documents: the site that MkDocs builds, its links, code in pages, and the links in our texts."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).parent.parent
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


def build_site(folder: pathlib.Path) -> str:
    """Build the documentation site into a folder and return what mkdocs prints. A warning is an error."""
    settings = str(ROOT / "docs" / "site" / "mkdocs.yml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", settings, "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def code_blocks(path: pathlib.Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


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
            linked = (path.parent / file).resolve() if file else path
            target = pages.get(linked)
            if not linked.is_file() or (place and target is not None and place not in target.places):
                yield f"{path.name}: {link}"


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of each `lazywafer` command in indented blocks. A synopsis, which has brackets, is left out."""
    for line in re.findall(r"^ {4}(?:[A-Z_]+=\S+ )*lazywafer (.*)$", text, re.MULTILINE):
        words = shlex.split(re.split(r"[#&|;<>]", line)[0])
        if words and not words[0].isupper() and "[" not in line:
            yield words


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
