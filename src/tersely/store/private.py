"""Folders and keys that only their owner can read. Imports little, because hooks need the key within milliseconds."""

import os
from contextlib import suppress

KEY_BYTES = 32


def private_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder for data, unless it exists. The folders above it that are missing become private, too.

    Raises:
        OSError: It cannot be created.
    """
    # `os.makedirs` gives its mode to the last folder only, and the data folder may be one above it.
    parent = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
    if not os.path.isdir(parent):  # noqa: PTH112
        private_folder(parent)
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103


def masking_key(folder: str | os.PathLike[str]) -> bytes | None:
    """The masking key of this user, created at first use.

    With it the same secret gets the same mark in every run, so that summaries of texts with secrets are found in the
    cache. None if the folder is not writable; marks then differ between runs.
    """
    path = os.path.join(folder, "masking.key")  # noqa: PTH118
    with suppress(OSError):
        private_folder(folder)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(os.urandom(KEY_BYTES))
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
        key = file.read()
        return key if len(key) == KEY_BYTES else None  # another process may be writing it
    return None
