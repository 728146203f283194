"""Files of certificates that a configuration names, and the connections that use them."""

import ssl
from pathlib import Path

from tersely.errors import ConfigError


def existing_file(value: str | None) -> str | None:
    """Check the name of a file while a configuration is read.

    Raises:
        ValueError: There is no such file.
    """
    if value is not None and not Path(value).expanduser().is_file():
        raise ValueError("there is no such file")
    return value


def tls_context(
    *, ca_file: str | None = None, client_cert: str | None = None, client_key: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """A context for connections.

    Args:
        ca_file: Certificates of the authorities to trust, instead of the system's.
        client_cert: The certificate that identifies us, with its key unless `client_key` has it.
        verify: Whether the server's certificate is checked.

    Raises:
        ConfigError: A file cannot be read, or has no certificates.
    """
    file = ca_file
    try:
        context = ssl.create_default_context(cafile=_path(ca_file))
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if client_cert:
            file = client_cert
            context.load_cert_chain(str(_path(client_cert)), _path(client_key))
    except (OSError, ssl.SSLError) as problem:
        reason = problem.strerror or type(problem).__name__
        raise ConfigError(f"{file} has no certificates that can be read ({reason}).") from None
    return context


def _path(file: str | None) -> str | None:
    return str(Path(file).expanduser()) if file else None
