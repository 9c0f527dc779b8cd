"""How the site differs from the folder `docs/`: hooks of MkDocs, named in `mkdocs.yml`.

The pages also have to work in the repository. The site adds the pages of the repository's root and the files of
`deploy/` and `examples/`, so that no link leads out of it, gives headings the anchors of GitHub, and leaves out the
comments that tell the tests how to treat a block.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import File, Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ROOT_PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/examples.md",
}
"""Pages outside of `docs/`, and where the site has them."""
FILES = ("deploy", "examples")
"""Folders whose files the site has below `source/`."""

_LINK_OR_CODE = re.compile(
    r"^ *```.*?^ *```\s*?$"
    r"|(?P<text>!?\[(?:[^\]`]|`[^`\n]*`)*\])\((?P<link>[^)\s]+)\)"
    r"|`[^`\n]+`",
    re.M | re.S,
)
_MARKER = re.compile(r"^<!-- (?:not run|background|fragment)[^>]*-->\n", re.M)


def anchor_of(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def place_of(target: Path) -> str | None:
    """Where the site has a file of the repository, if it has it."""
    path = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
    if path == "README.md":
        return "index.md"
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    return f"source/{path}" if path.startswith(FILES) and target.is_file() else None


def rewrite_links(markdown: str, source: Path, page: str) -> str:
    """The text of a page, `source` in the repository, with the links that `page` of the site needs."""

    def rewrite(found: re.Match[str]) -> str:
        link = found["link"]
        if link is None or re.match(r"[a-z]+:|#", link):
            return found[0]
        path, mark, anchor = link.partition("#")
        place = place_of((source.parent / path).resolve())
        if place is None:
            return found["text"].strip("[]")
        return f"{found['text']}({os.path.relpath(place, Path(page).parent)}{mark}{anchor})"

    return _LINK_OR_CODE.sub(rewrite, markdown)


def on_config(config: Any) -> Any:
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor_of
    return config


def on_files(files: Files, config: Any) -> Files:
    from mkdocs.structure.files import File

    def add(file: File) -> None:
        files.append(file)

    for source, place in ROOT_PAGES.items():
        add(File.generated(config, place, abs_src_path=str(ROOT / source)))
    for folder in FILES:
        for path in sorted((ROOT / folder).rglob("*")):
            hidden = any(part.startswith((".", "__")) for part in path.relative_to(ROOT).parts)
            if path.is_file() and path.suffix != ".md" and not hidden:
                place = f"source/{path.relative_to(ROOT).as_posix()}"
                add(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    place = page.file.src_uri
    source = next((ROOT / name for name, where in ROOT_PAGES.items() if where == place), DOCS / place)
    return rewrite_links(_MARKER.sub("", markdown), source, place)
