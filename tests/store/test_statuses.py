"""One vocabulary of statuses: whatever cannot import it lists the same words."""

import re
from pathlib import Path

from tersely.store.statuses import ENDS, OPEN, STATUSES
from tersely.store.tables import sessions

ROOT = Path(__file__).parents[2]


def test_dashboard_tables_and_reference_know_exactly_these_statuses() -> None:
    assert set(OPEN) | set(ENDS) == set(STATUSES) and not set(OPEN) & set(ENDS)
    dashboard = ROOT / "src" / "tersely" / "web" / "dashboard"
    words = re.search(r"const STATUS = \{(.*?)\};", (dashboard / "format.js").read_text(), re.DOTALL)
    listed = re.search(r"const STATUSES = \[(.*?)\];", (dashboard / "sessions-page.js").read_text())
    assert words and re.findall(r"(\w+):", words.group(1)) == list(STATUSES)
    assert listed and re.findall(r"\w+", listed.group(1)) == list(STATUSES)
    constraint = next(str(one.sqltext) for one in sessions.constraints if "status_is_known" in str(one.name))  # type: ignore[attr-defined]
    assert re.findall(r"'(\w+)'", constraint) == list(STATUSES)
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    assert all(f"`{status}`" in page for status in STATUSES)
    copies = [
        str(path)
        for path in (ROOT / "src").rglob("*.py")
        if '"cancelled", "timed_out"' in path.read_text(encoding="utf-8") and path.name != "statuses.py"
    ]
    assert not copies, "a second list of statuses"
