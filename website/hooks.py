"""Additions of mkdocs: pages from build/pages, and links to files of the repository that are not pages."""

import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
_OUTSIDE = re.compile(
    r"\]\((?:\.\./)+((?:README|CONTRIBUTING|SECURITY|CHANGELOG|CODE_OF_CONDUCT)\.md|(?:examples|deploy|bench|src|tests)/[^)#]*)"
)


def on_files(files: Any, config: Any) -> Any:
    for page in sorted(PAGES.rglob("*.md")):
        files.append(File.generated(config, page.relative_to(PAGES).as_posix(), content=page.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links that leave docs/ to the repository; a file that does not exist stays a broken link."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = f"{project['urls']['Repository']}/blob/main"

    def outside(link: re.Match[str]) -> str:
        return f"]({address}/{link[1]}" if (ROOT / link[1]).exists() else link[0]

    return _OUTSIDE.sub(outside, markdown)
