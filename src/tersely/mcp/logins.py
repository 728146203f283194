"""Logins at remote servers: OAuth tokens and what is needed to refresh them, one record per server address.

A record is a file that only the user can read, or an entry of the system's keyring with a small file
that points to it; the file's time of change tells running gateways that a login is new. Knows nothing of
HTTP: `mcp.connect.tokens` refreshes, `mcp.sign_in` performs the login.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import anyio
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from tersely.errors import ConfigError
from tersely.store.private import private_folder

LOGIN_COMMAND = "tersely gateway login"
LOGINS_FOLDER = "logins"
"""Folder in the data folder."""

LoginStorage = Literal["auto", "keyring", "file"]

_SERVICE = "tersely"


class Login(BaseModel):
    """The tokens of one server, and how to refresh and revoke them."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    url: str
    """Address of the server, as `canonical` writes it."""

    access_token: SecretStr
    refresh_token: SecretStr | None = None
    expires_at: float | None = None
    """Seconds since 1970; None if the server did not say."""

    scope: str | None = None
    resource: str | None = None
    """The resource that the tokens are for (RFC 8707)."""

    client_id: str
    client_secret: SecretStr | None = None
    token_endpoint_auth_method: str | None = None
    token_endpoint: str
    revocation_endpoint: str | None = None
    issuer: str = ""

    def expires_within(self, seconds: float) -> bool:
        return self.expires_at is not None and time.time() + seconds >= self.expires_at

    def as_record(self) -> dict[str, Any]:
        """For storage, with the secrets."""
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self
            if value is not None
        }


def canonical(url: str) -> str:
    """An address in the form that identifies its login: no fragment, no trailing slash, host in lower case."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    netloc = f"[{host}]" if ":" in host else host
    if parts.port and parts.port != {"http": 80, "https": 443}.get(parts.scheme):
        netloc += f":{parts.port}"
    return urlunsplit((parts.scheme.lower(), netloc, parts.path.rstrip("/"), parts.query, ""))


class LoginStore:
    """The logins of this user. All methods block; call them in a thread from asynchronous code.

    Args:
        folder: Where the files are.
        storage: `auto` uses the keyring where there is one, and a file otherwise.
    """

    def __init__(self, folder: Path, storage: LoginStorage = "auto") -> None:
        self._folder = folder
        self._storage = storage
        self._files: dict[str, Path] = {}

    def version(self, url: str) -> int:
        """Changes whenever the login changes; 0 if there is none."""
        try:
            return self._file(url).stat().st_mtime_ns
        except OSError:
            return 0

    def get(self, url: str) -> Login | None:
        try:
            record = json.loads(self._file(url).read_text(encoding="utf-8"))
            if isinstance(record, dict) and record.get("kept_in") == "keyring":
                record = json.loads(_keyring().get_password(_SERVICE, canonical(url)) or "null")
            login = Login.model_validate(record)
        except (OSError, ValueError, ValidationError):
            return None
        except Exception:  # noqa: BLE001
            # Broad: each keyring backend has exceptions of its own. Without its answer there is no login.
            return None
        # A copied file does not make the tokens of one server those of another.
        return login if login.url == canonical(url) else None

    def save(self, login: Login) -> Literal["keyring", "file"]:
        """Store a login and say where.

        Raises:
            ConfigError: It cannot be stored.
        """
        record = json.dumps(login.as_record())
        if self._storage != "file":
            try:
                if self._storage == "keyring" or _has_keyring():
                    _keyring().set_password(_SERVICE, login.url, record)
                    self._write(login.url, json.dumps({"url": login.url, "kept_in": "keyring"}))
                    return "keyring"
            except ConfigError:
                raise
            except Exception as problem:  # noqa: BLE001
                # Broad: each keyring backend has exceptions of its own, and some limit the length of an entry.
                if self._storage == "keyring":
                    raise ConfigError(f"The keyring cannot store the login: {type(problem).__name__}.") from None
        self._write(login.url, record)
        return "file"

    def remove(self, url: str) -> bool:
        """Delete a login; False if there is none."""
        file = self._file(url)
        if not file.exists():
            return False
        with suppress(Exception):
            if json.loads(file.read_text(encoding="utf-8")).get("kept_in") == "keyring":
                _keyring().delete_password(_SERVICE, canonical(url))
        file.unlink(missing_ok=True)
        return True

    def urls(self) -> list[str]:
        """The addresses with a login."""
        found: list[str] = []
        for file in self._folder.glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(str(json.loads(file.read_text(encoding="utf-8"))["url"]))
        return sorted(found)

    @asynccontextmanager
    async def locked(self, url: str) -> AsyncIterator[None]:
        """Exclude other processes while a login is refreshed: a refresh token may be valid only once."""
        private_folder(self._folder)
        with self._file(url).with_suffix(".lock").open("a+b") as file:
            os.chmod(file.name, 0o600)  # noqa: PTH101
            deadline = anyio.current_time() + 30
            while True:
                try:
                    _lock(file.fileno())
                    break
                except OSError:
                    if anyio.current_time() > deadline:
                        break  # the other process hangs; a failed refresh is better than a stopped gateway
                    await anyio.sleep(0.05)
            yield

    def _file(self, url: str) -> Path:
        if url not in self._files:  # asked for with every request; few addresses are configured
            self._files[url] = self._folder / f"{hashlib.sha256(canonical(url).encode()).hexdigest()[:32]}.json"
        return self._files[url]

    def _write(self, url: str, text: str) -> None:
        path = self._file(url)
        try:
            private_folder(self._folder)
            handle, temporary = mkstemp(prefix=".login", dir=self._folder)  # readable by its owner only
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as problem:
            raise ConfigError(f"{path}: the login cannot be stored: {problem.strerror}.") from None


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        raise ConfigError("The keyring needs the package `keyring`: pip install keyring.") from None
    return keyring


def _has_keyring() -> bool:
    try:
        return float(_keyring().get_keyring().priority) >= 1
    except Exception:  # noqa: BLE001
        # Broad: a backend may fail in any way while it looks for its service.
        return False


def _lock(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
