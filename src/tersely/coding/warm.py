"""Hands an event to the helper process, which has everything loaded, and starts that process if there is none.

Imports next to nothing: with a helper, a hook takes hardly longer than the interpreter.
The helper listens on a socket in a folder that only its user can enter. Whatever fails,
the hook does the work itself.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VARIABLES = ("HOME", "TERSELY_DATA_DIR", "XDG_DATA_HOME", "TMPDIR", "TEMP", "LOCALAPPDATA")
"""What decides where results are kept."""

_SETTINGS = "TERSELY_HOOK_"

_SECONDS = 10.0


_LONGEST_FOLDER = 64
"""With the name of the socket, the longest path that every system takes (104 bytes on macOS)."""


def helper_folder(environment: "Mapping[str, str]") -> str:
    """The folder of the helper's socket; not in the data folder, whose path may be too long for a socket."""
    name = f"tersely-helper-{os.getuid()}"
    folder = f"{environment.get('TMPDIR') or '/tmp'}/{name}"
    return folder if len(os.fsencode(folder)) <= _LONGEST_FOLDER else f"/tmp/{name}"


def socket_path(environment: "Mapping[str, str]") -> str:
    """One socket for each installation: an update does not talk to the helper of another version."""
    stamp = os.stat(__file__)  # noqa: PTH116
    return f"{helper_folder(environment)}/{stamp.st_ino:x}-{int(stamp.st_mtime):x}.sock"


def ask_helper(words: "Sequence[str]", raw: bytes, environment: "Mapping[str, str]") -> bytes | None:
    """The helper's answer to an event; None if there is no helper, or it failed."""
    import _socket

    try:
        folder = os.lstat(helper_folder(environment))
        if folder.st_uid != os.getuid() or folder.st_mode & 0o077:
            return None  # Another user made it.
        known = [
            f"{name}={value}" for name, value in environment.items() if name in _VARIABLES or name.startswith(_SETTINGS)
        ]
        head = "\0".join((*words, "", *known)).encode("utf-8", "surrogateescape")
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(_SECONDS)
            connection.connect(socket_path(environment))
            connection.sendall(b"%d %d\n" % (len(head), len(raw)) + head + raw)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        finally:
            connection.close()
    except (OSError, ValueError):
        return None
    size, _, answer = b"".join(parts).partition(b"\n")
    return answer if size.isdigit() and int(size) == len(answer) else None


def start_helper(environment: "Mapping[str, str]") -> None:
    """Start the helper for the next events; this one does not wait for it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    command = [sys.executable, "-m", "tersely", "hook", "helper"]
    actions = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
    try:
        os.posix_spawn(sys.executable, command, dict(environment), file_actions=actions, setsid=True)
    except (OSError, NotImplementedError):
        return
    finally:
        os.close(nothing)


def answer_warm(words: "Sequence[str]", environment: "Mapping[str, str]") -> int:
    """Answer the event on standard input with the helper, or without it; always 0."""
    parts = []
    while part := os.read(0, 2**20):
        parts.append(part)
    raw = b"".join(parts)
    if environment.get("TERSELY_OFF", "") not in ("", "0") or (b'"PreToolUse"' in raw and b"[MASKED:" not in raw):
        return 0
    answer = ask_helper(words, raw, environment)
    if answer is not None:
        view = memoryview(answer)
        while view:
            view = view[os.write(1, view) :]
        return 0
    from tersely.coding.hook import hook

    start_helper(environment)
    return hook(words, environment, raw)
