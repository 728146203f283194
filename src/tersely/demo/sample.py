"""A day in the log of a shop that does not exist: much noise, and one cause.

Drawn from a seed, so that the same number gives the same log again. The cause is
one of several, stands in a handful of lines, and has look-alikes that mean nothing.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tersely.text.tokens import O200K

QUESTION = "why do checkouts fail since 14:00"


@dataclass(frozen=True)
class Cause:
    name: str
    """What a person on call would say it was."""

    lines: tuple[str, ...]
    """What the log says of it, each of them once."""


CAUSES = (
    Cause(
        "the connection pool to orders-primary is exhausted",
        (
            "ERROR checkout  could not get a connection: pool orders-primary exhausted (20 of 20 in use, 187 waiting)",
            "WARN  orders-db config reloaded: pool.max lowered from 200 to 20 by deploy 4.11.2",
        ),
    ),
    Cause(
        "the certificate of payments.internal has expired",
        (
            "ERROR checkout  call to payments.internal failed: x509: certificate has expired (notAfter 2026-11-14T14:00:00Z)",
            "WARN  gateway   upstream payments.internal: TLS handshake failed 512 times in the last minute",
        ),
    ),
    Cause(
        "the disk of inventory-2 is full",
        (
            "ERROR inventory write failed on inventory-2: no space left on device (/var/lib/inventory, 100% used)",
            "ERROR checkout  reservation rejected by inventory-2 with 507",
        ),
    ),
    Cause(
        "a new feature flag sends carts to a service that is not deployed",
        (
            "INFO  flags     flag cart-v2 set to 100% by m.okafor at 14:00",
            "ERROR checkout  no such host: cart-v2.internal (flag cart-v2 is on)",
        ),
    ),
    Cause(
        "the clock of auth-1 is eleven minutes ahead",
        (
            "ERROR checkout  token rejected: issued in the future (iat is 662 s ahead), issuer auth-1",
            "WARN  auth-1    ntp: no server reachable since 13:12, offset unknown",
        ),
    ),
    Cause(
        "the tax provider changed its answer",
        (
            "ERROR checkout  cannot read answer of tax-provider: field 'rate' missing (got 'rates', schema 2026-11)",
            "WARN  tax       tax-provider announced schema 2026-11 in header X-Schema-Version",
        ),
    ),
)

_LOOK_ALIKES = (
    "WARN  checkout  slow query on orders-replica: 812 ms, retried and done",
    "ERROR mailer    could not send newsletter 7731: mailbox full",
    "WARN  gateway   certificate of static.internal expires in 29 days",
    "WARN  inventory disk of inventory-1 at 71%",
    "INFO  flags     flag banner-v3 set to 10% by c.lind",
    "ERROR search    index refresh skipped: another one is running",
)


@dataclass(frozen=True)
class Sample:
    text: str
    question: str
    cause: Cause


_START = datetime(2026, 11, 14, 11, tzinfo=UTC)


def draw(seed: int, tokens: int = 200_000) -> Sample:
    """A log of about `tokens` tokens with one cause in it."""
    chance = random.Random(seed)
    cause = chance.choice(CAUSES)
    noise = _noise(chance)
    one_line = sum(O200K.count(f"{_at(_START)} {next(noise)}\n") for _ in range(200)) / 200
    count = max(50, int(tokens / one_line))
    step = timedelta(hours=5) / count
    lines = [f"{_at(_START + step * n)} {next(noise)}" for n in range(count)]
    trouble_begins = int(count * 0.6) + 1  # 14:00
    for position, said in enumerate(cause.lines):
        place = trouble_begins + position + chance.randrange(count // 10)
        lines.insert(place, f"{_at(_START + step * place)} {said}")
    return Sample("\n".join(lines) + "\n", QUESTION, cause)


def _at(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _noise(chance: random.Random) -> Iterator[str]:
    kinds: list[Callable[[], str]] = [
        lambda: f"INFO  gateway   GET /product/{chance.randrange(9999)} 200 {chance.randrange(4, 90)}ms req={chance.getrandbits(48):012x}",
        lambda: f"INFO  search    query took {chance.randrange(3, 60)}ms hits={chance.randrange(400)} req={chance.getrandbits(48):012x}",
        lambda: f"DEBUG cache     hit ratio {chance.uniform(0.9, 0.99):.3f} keys={chance.randrange(80_000, 90_000)}",
        lambda: f"INFO  checkout  cart {chance.getrandbits(40):010x} priced at {chance.uniform(3, 300):.2f} EUR",
        lambda: f"INFO  inventory stock of sku-{chance.randrange(10_000, 99_999)} now {chance.randrange(500)}",
        lambda: f"INFO  mailer    sent receipt to user-{chance.randrange(1_000_000)}",
    ]
    while True:
        yield chance.choice(_LOOK_ALIKES) if chance.random() < 0.004 else chance.choice(kinds)()
