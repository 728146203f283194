"""Folders and keys that only their owner can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def private_folder(path: Path) -> None:
    """Create a folder for data, unless it exists.

    Raises:
        OSError: It cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def masking_key(folder: Path) -> bytes | None:
    """The masking key of this user, created at first use.

    With it the same secret gets the same mark in every run, so that summaries of texts with secrets are found in the
    cache. None if the folder is not writable; marks then differ between runs.
    """
    path = folder / "masking.key"
    with suppress(OSError):
        private_folder(folder)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(secrets.token_bytes(32))
    with suppress(OSError):
        key = path.read_bytes()
        return key if len(key) == 32 else None  # another process may be writing it
    return None
