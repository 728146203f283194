"""Results kept by processes that end with one result: written to files, taken into the store later.

A hook or `tersely run` lives for a fraction of a second, less than opening a database
takes. It writes each result it shortened to a file of its own, readable by its owner
only, under the handle that its note names. `KeptResults` takes these files in when a
handle is asked for, when results are listed, and when statistics are shown. A gateway
that has kept nothing yet writes its statistics here, too.

Writing never raises: without a writable folder, a result has no handle. Imports only
the standard library, so that it costs next to nothing.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tersely.store.handles import new_handle
from tersely.store.private import private_folder

if TYPE_CHECKING:
    from tersely.masking.masked import Masked

MOST_BYTES = 512 * 2**20
MOST_SECONDS = 30 * 24 * 3600
"""Files beyond this size in total, or older, are deleted: they were never asked for."""

_USES = "uses.jsonl"
_SUMS = "sums.jsonl"
_LARGEST_USES = 8 * 2**20
_READABLE_BY_OWNER = 0o600


def user_scope() -> str:
    """The scope of the operating-system user, for callers without a session or a principal."""
    return f"user:{os.getuid()}" if hasattr(os, "getuid") else "user:me"


class SpooledResult:
    """One file of the spool: what is known about the result, and where its text begins."""

    __slots__ = ("header", "path", "start")

    def __init__(self, path: str, header: dict[str, Any], start: int) -> None:
        self.path = path
        self.header = header
        self.start = start

    def blocks(self, size: int) -> Iterator[bytes]:
        """The text in blocks of this size, as UTF-8.

        Raises:
            OSError: The file is gone.
        """
        with open(self.path, "rb") as file:  # noqa: PTH123
            file.seek(self.start)
            while block := file.read(size):
                yield block


class LargeResult:
    """A result that is being written to the spool part by part; nothing of it can be found before `finish`.

    Args:
        path: Its file.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, spool: "ResultSpool", path: str, handle: str, header: Mapping[str, Any]) -> None:
        self.handle = handle
        self.size = 0
        """Bytes written."""
        self._spool = spool
        self._path = path
        self._header = {"handle": handle, "scope": user_scope(), "at": time.time(), **header}
        # The number of tokens is known only at the end, so its room is reserved.
        self._room = len(json.dumps(self._header)) + 40
        self.file = os.open(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, _READABLE_BY_OWNER)
        """Can be read until `close`."""
        self._write(b" " * self._room + b"\n")

    @property
    def start(self) -> int:
        """Where the text begins in the file."""
        return self._room + 1

    def add(self, text: "Masked") -> bytes:
        """Write the next part, and return what was written.

        Raises:
            OSError: There is no room.
        """
        data = text.encode("utf-8", "replace")
        self._write(data)
        self.size += len(data)
        return data

    def finish(self, tokens: int) -> str:
        """Let the result be found; returns its handle.

        Raises:
            OSError: The file cannot be renamed.
        """
        os.pwrite(self.file, json.dumps({**self._header, "tokens": tokens}).ljust(self._room).encode(), 0)
        os.replace(f"{self._path}.new", self._path)  # noqa: PTH105
        self._spool.prune(os.path.dirname(self._path))  # noqa: PTH120
        return self.handle

    def close(self) -> None:
        """Let go of the file, which is deleted unless it was finished."""
        os.close(self.file)
        _unlink(f"{self._path}.new")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]


class ResultSpool:
    """The spool of one user.

    Args:
        folders: The first that can be written is used; all of them are read.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(folders)

    def write(self, text: "Masked", **header: Any) -> str | None:
        """Keep a text, and return its handle; None if no folder can be written.

        Args:
            header: `tool`, `arguments` and `tokens` of the result, as JSON values; masked.
        """
        handle = new_handle()
        first = json.dumps({"handle": handle, "scope": user_scope(), "at": time.time(), **header})
        content = f"{first}\n".encode() + text.encode("utf-8", "replace")
        for folder in self.folders:
            path = os.path.join(folder, f"{handle}.kept")  # noqa: PTH118 — pathlib is slow to import
            try:
                _make_private(folder)
                _write(f"{path}.new", content)
                os.replace(f"{path}.new", path)  # noqa: PTH105
            except OSError:
                continue
            self.prune(folder)
            return handle
        return None

    def begin(self, **header: Any) -> LargeResult:
        """Begin to keep a text that is too large for memory; `header` is that of `write`, without `tokens`.

        Raises:
            OSError: No folder can be written.
        """
        handle = new_handle()
        problem = OSError("There is no folder for kept results.")
        for folder in self.folders:
            try:
                _make_private(folder)
                return LargeResult(self, os.path.join(folder, f"{handle}.kept"), handle, header)  # noqa: PTH118
            except OSError as error:
                problem = error
        raise problem

    def count(self, **use: Any) -> None:
        """Append one line to the statistics; lost if no folder can be written."""
        self._append(_USES, [{"at": time.time(), **use}])

    def add_sums(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Append sums of a process that goes on, as `store.tally` writes them; False if no folder can be written."""
        return self._append(_SUMS, rows)

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
        lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        for folder in self.folders:
            try:
                _make_private(folder)
                path = os.path.join(folder, name)  # noqa: PTH118
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _READABLE_BY_OWNER)
                try:
                    if os.fstat(file).st_size < _LARGEST_USES:
                        os.write(file, lines)
                finally:
                    os.close(file)
            except OSError:
                continue
            return True
        return False

    def find(self, handle: str) -> SpooledResult | None:
        """The result of this handle, if it is here."""
        if not handle.startswith("r_") or not handle.isascii() or not handle.replace("_", "").isalnum():
            return None
        paths = (os.path.join(folder, f"{handle}.kept") for folder in self.folders)  # noqa: PTH118
        return next((found for path in paths if (found := _read(path))), None)

    def every(self) -> Iterator[SpooledResult]:
        """All results, in no particular order."""
        for path in self._paths(".kept"):
            if found := _read(path):
                yield found

    def take_uses(self) -> list[dict[str, Any]]:
        """The lines of statistics that no other process has taken; they are gone from the spool afterwards."""
        return self._take(_USES)

    def take_sums(self) -> list[dict[str, Any]]:
        """The sums that no other process has taken; they are gone from the spool afterwards."""
        return self._take(_SUMS)

    def _take(self, name: str) -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = []
        for path in self._paths(name):
            mine = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
            try:
                os.rename(path, mine)  # noqa: PTH104
                with open(mine, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    for line in file:
                        use = _parsed(line)
                        if use is not None:
                            taken.append(use)
                os.unlink(mine)  # noqa: PTH108
            except OSError:
                continue
        return taken

    def drop(self, result: SpooledResult) -> None:
        """Delete the file of a result that the store has."""
        _unlink(result.path)

    def _paths(self, ending: str) -> Iterator[str]:
        for folder in self.folders:
            try:
                names = sorted(os.listdir(folder))  # noqa: PTH208
            except OSError:
                continue
            yield from (os.path.join(folder, name) for name in names if name.endswith(ending))  # noqa: PTH118

    def prune(self, folder: str) -> None:
        """Delete what is too old or too much, oldest first."""
        files = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith((".kept", ".new")):
                        known = entry.stat(follow_symlinks=False)
                        files.append((known.st_mtime, known.st_size, entry.path))
        except OSError:
            return
        oldest, left = time.time() - MOST_SECONDS, sum(size for _, size, _ in files)
        for changed, size, path in sorted(files):
            if changed >= oldest and left <= MOST_BYTES:
                break
            _unlink(path)
            left -= size


def spool_of(data_folder: str, temporary: str) -> ResultSpool:
    """The spool of the user: in the data folder, or below the folder for temporary files if that is read-only."""
    owner = user_scope().replace(":", "-")
    return ResultSpool([os.path.join(data_folder, "spool"), os.path.join(temporary, f"tersely-{owner}")])  # noqa: PTH118


def _make_private(folder: str) -> None:
    """
    Raises:
        OSError: The folder cannot be made, or belongs to another user.
    """
    private_folder(folder)
    known = os.lstat(folder)
    is_folder = known.st_mode & 0o170000 == 0o040000
    if hasattr(os, "getuid") and (not is_folder or known.st_uid != os.getuid() or known.st_mode & 0o077):
        raise PermissionError(f"{folder} is open to others.")


def _write(path: str, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READABLE_BY_OWNER)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        _unlink(path)
        raise
    finally:
        os.close(file)


def _read(path: str) -> SpooledResult | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            first = file.readline(1_000_000)
    except OSError:
        return None
    header = _parsed(first.decode("utf-8", "replace"))
    return SpooledResult(path, header, len(first)) if header is not None and "handle" in header else None


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, Mapping) and isinstance(value, dict) else None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        return
