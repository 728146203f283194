"""Folders that only their owner can read."""

from pathlib import Path


def private_folder(path: Path) -> None:
    """Create a folder for data, unless it exists.

    Raises:
        OSError: It cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
