"""The tools that are used most: listed although the others of their servers are lazy.

They come from the statistics of the last weeks. The database is opened after the first
client was greeted, so a small file in the data folder has them for the next start; a
list that changed while a client is connected would void its prompt cache.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from tersely.store.private import private_folder

logger = logging.getLogger(__name__)

FREQUENT_FILE = "gateway_frequent.json"
"""File name in the data folder."""

MOST_FREQUENT = 8
LEAST_CALLS = 3
WITHIN_DAYS = 30


def load_frequent(folder: Path) -> frozenset[str]:
    """The tools as `server.tool`; none if nothing is known."""
    try:
        found = json.loads((folder / FREQUENT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(str(tool) for tool in found[:MOST_FREQUENT]) if isinstance(found, list) else frozenset()


def save_frequent(folder: Path, tools: Sequence[str]) -> None:
    path = folder / FREQUENT_FILE
    try:
        private_folder(folder)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(sorted(tools)), encoding="utf-8")
        new.replace(path)
    except OSError as problem:
        logger.warning("frequent_tools_not_stored", extra={"problem": str(problem)})
