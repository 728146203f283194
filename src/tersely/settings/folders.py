"""Where this user's data is, for processes that have no time to load the settings.

The same folder as the default of `StoreSettings.data_dir`; a test compares them.
"""

import sys
from collections.abc import Mapping


def data_folder(environment: Mapping[str, str]) -> str:
    """The data folder: `TERSELY_DATA_DIR`, or the platform's folder for a user's data."""
    if named := environment.get("TERSELY_DATA_DIR"):
        return _expanded(named, environment)
    if sys.platform == "darwin":
        return _expanded("~/Library/Application Support/tersely", environment)
    if sys.platform == "win32":
        return f"{environment.get('LOCALAPPDATA', '.')}\\tersely"
    shared = environment.get("XDG_DATA_HOME", "").strip()
    return f"{shared}/tersely" if shared else _expanded("~/.local/share/tersely", environment)


def temporary_folder(environment: Mapping[str, str]) -> str:
    return environment.get("TMPDIR") or environment.get("TEMP") or "/tmp"


def _expanded(path: str, environment: Mapping[str, str]) -> str:
    return environment.get("HOME", "") + path[1:] if path == "~" or path.startswith("~/") else path
