"""What the examples ask about: a log of 2,000 lines, one of which matters."""

LOG = "".join(
    f"2026-11-15T10:{n // 60:02d}:{n % 60:02d}Z INFO api GET /cart/{n} 200\n"
    if n != 1_200
    else "2026-11-15T10:20:00Z ERROR payments card declined by issuer 4711\n"
    for n in range(2_000)
)
QUESTION = "Why was the card declined?"


def logs(service: str) -> str:
    """The log of a service."""
    return LOG
