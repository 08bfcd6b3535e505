"""Hooks of MkDocs: pages that are generated, and links from pages to files of the repository."""

import pathlib
import posixpath
import re
import sys
from typing import Any

from mkdocs.structure.files import File, Files

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import api_pages  # noqa: E402  (the two lines above make these modules importable)
import notebook_pages  # noqa: E402
import rule_pages  # noqa: E402
import schema_pages  # noqa: E402

DOCUMENTS = {
    "GLOSSARY.md": "reference/glossary.md",
    "STABILITY.md": "stability.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "lazytensor/README.md": "explanation/lazytensor.md",
    "wse_sim/README.md": "explanation/wse_sim.md",
    "cstorch_compat/README.md": "explanation/cstorch_compat.md",
    "notebooks/README.md": "course/index.md",
    "README.md": "index.md",
    "docs/reference/api.md": "reference/api/index.md",
}
"""Documents of the repository -> their pages. A link to README.md leads to the site's first page."""
OWN_PAGES = {"index.md"}
SCHEMA = "cstorch_compat/planning/plan.schema.json"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def page_of(path: str) -> str | None:
    """Return the page that shows a file of the repository, or None if the site does not have the file."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        return f"course/{pathlib.PurePath(path).stem}.md"
    if path.startswith("notebooks/pictures/"):
        return path.removeprefix("notebooks/")
    if path == SCHEMA:
        return "reference/plan.schema.json"
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def source_of(page: str) -> str:
    """Return the file of the repository that a page shows."""
    if page.startswith("course/") and page != "course/index.md":
        return f"notebooks/{pathlib.PurePath(page).stem}.ipynb"
    documents = {shown: path for path, shown in DOCUMENTS.items() if shown not in OWN_PAGES}
    return documents.get(page, f"docs/{page}")


def site_text(text: str, page: str) -> str:
    """Return a document as the site shows it: its links lead to pages, and a file without a page becomes code."""
    folder = posixpath.dirname(source_of(page))

    def replace(match: re.Match[str]) -> str:
        mark, label, link = match.groups()
        if link.startswith(("http://", "https://", "mailto:", "#")):
            return match[0]
        file, _, anchor = link.partition("#")
        shown = page_of(posixpath.normpath(posixpath.join(folder, file)))
        if shown is None and mark:
            return match[0]  # a picture of a notebook's output
        if shown is None:
            return label if "`" in label else f"`{label}`"
        target = posixpath.relpath(shown, posixpath.dirname(page) or ".")
        return f"{mark}[{label}]({target}{'#' + anchor if anchor else ''})"

    parts = FENCE.split(text)  # odd parts are code
    return "".join(
        part if i % 2 else LINK.sub(replace, notebook_pages.with_spaced_lists(part)) for i, part in enumerate(parts)
    )


def fill(text: str, name: str, generated: str) -> str:
    """Replace what is between `<!-- name -->` and `<!-- end -->`, which is for readers of the repository."""
    before, _, rest = text.partition(f"<!-- {name} -->")
    return before + generated + rest.partition("<!-- end -->")[2]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are no files below docs/."""
    shown = {page: ROOT / path for path, page in DOCUMENTS.items() if page not in OWN_PAGES}
    texts = {page: path.read_text(encoding="utf-8") for page, path in shown.items()}
    api = api_pages.pages()
    listed = "\n".join(f"- [{api_pages.title(text)}]({page.rpartition('/')[2]})" for page, text in api.items())
    texts |= api | {"reference/api/index.md": fill(texts["reference/api/index.md"], "pages", listed)}
    texts["reference/plan.schema.json"] = (ROOT / SCHEMA).read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = page_of(f"notebooks/{path.name}")
        assert page is not None
        texts[page], pictures = notebook_pages.page(path)
        for name, data in pictures.items():
            files.append(File.generated(config, f"course/{name}", content=data))
    for path in sorted((ROOT / "notebooks/pictures").iterdir()):
        files.append(File.generated(config, f"pictures/{path.name}", content=path.read_bytes()))
    index = files.get_file_from_path("reference/api.md")
    assert index is not None
    files.remove(index)  # shown as reference/api/index.md
    for name in ("site.css", "iframe-worker.js"):
        texts[name] = (HERE / name).read_text(encoding="utf-8")
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the rules of the check, and make links lead to pages."""
    path = page.file.src_uri
    if path == "reference/rules.md":
        markdown = fill(markdown, "rules", rule_pages.rules())
    if path == "reference/report-json.md":
        markdown = fill(markdown, "plan schema", schema_pages.tables(ROOT / SCHEMA))
    if path.startswith("reference/api/") and path != "reference/api/index.md":
        return markdown  # docstrings have no links to files
    return site_text(markdown, path)


def on_post_build(config: Any) -> None:
    """Remove what a reader does not load: source maps, languages of the search, and pages for a web server."""
    site = pathlib.Path(config["site_dir"])
    for pattern in ("assets/**/*.map", "assets/javascripts/lunr/**/*", "sitemap.xml*", "404.html"):
        for path in site.glob(pattern):
            if path.is_file():
                path.unlink()
