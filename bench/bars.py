"""What a benchmark found, as panels of bars: `--json FILE` writes them, `bench.plots` draws them.

A panel has a title, a unit, groups of bars (a size, a kind of text), one bar per way (ours, a peer), and for each group
what is wanted: at most, or at least.
"""

import json
from pathlib import Path
from typing import Any


class Bars:
    """Collects the bars of a run, in the order in which they are to be drawn."""

    def __init__(self) -> None:
        self.panels: dict[str, dict[str, Any]] = {}

    def add(
        self,
        panel: str,
        group: str,
        way: str,
        value: float,
        *,
        unit: str = "",
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        """Add one bar; `most` or `least` is what is wanted of the group."""
        made = self.panels.setdefault(panel, {"title": panel, "unit": unit, "bars": {}, "most": {}, "least": {}})
        made["bars"].setdefault(group, {})[way] = round(value, 4)
        for name, wanted in (("most", most), ("least", least)):
            if wanted is not None:
                made[name][group] = round(wanted, 4)

    def write(self, file: Path | None, **more: Any) -> None:
        """Write the panels and `more` as JSON, if there is a file to write."""
        if file:
            found = {**more, "panels": list(self.panels.values())}
            file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
