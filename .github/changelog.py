"""Prints the section of CHANGELOG.md for one version: python .github/changelog.py 0.2.0"""

import re
import sys
from pathlib import Path


def section(changelog: str, version: str) -> str:
    """Return the text below the heading of a version.

    Raises:
        SystemExit: There is no such section, or it is empty.
    """
    parts = re.split(r"^## \[(.+?)\].*$", changelog, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True)).get(version, "").strip()
    if not found:
        raise SystemExit(f"CHANGELOG.md has no section [{version}], or an empty one.")
    return found + "\n"


if __name__ == "__main__":
    changelog = Path(__file__).parents[1] / "CHANGELOG.md"
    sys.stdout.write(section(changelog.read_text(encoding="utf-8"), sys.argv[1]))
