"""Compare masking with the same masking on the standard library's `re`, in one run.

    .venv-bench/bin/python -m bench.masking [--smoke]

Both run the same code on the same patterns; only the engine under them differs.
Ordinary texts have 64 kB and hold no secrets, or one in every hundredth line.
Hostile texts have 100 kB and are made to be slow; a run is stopped after ten
seconds. Each figure is CPU time, the best of three.
"""

import json
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.arguments import parser
from bench.bars import Bars
from bench.tokens import grown, json_record, log_line, prose
from tersely.errors import MaskingFailed
from tersely.masking import assignments as secret_assignments
from tersely.masking import mask
from tersely.masking import patterns as secret_patterns
from tersely.masking import search as secret_search
from tersely.masking import structures as secret_structures
from tersely.masking.mask import Masker
from tersely.masking.patterns import Pattern, Places

TIMEOUT = 10
SIZE = 65_536
HOSTILE_SIZE = 100_000


class StandardPattern:
    """The interface of `Pattern` over `re`."""

    def __init__(self, pattern: Pattern) -> None:
        self._expression = re.compile(pattern.source.encode(), re.IGNORECASE if pattern.ignore_case else 0)

    @staticmethod
    def _places(match: re.Match[bytes] | None) -> Places | None:
        return [match.span(number) for number in range(match.re.groups + 1)] if match else None

    def search(self, text: bytes, start: int = 0, end: int | None = None) -> Places | None:
        return self._places(self._expression.search(text, start, len(text) if end is None else end))

    def match(self, text: bytes, start: int = 0, end: int | None = None) -> Places | None:
        return self._places(self._expression.match(text, start, len(text) if end is None else end))

    def groups_of(self, text: bytes, start: int, end: int) -> Places | None:
        return self.match(text, start, end)

    def is_all_of(self, text: bytes, start: int = 0, end: int | None = None) -> bool:
        return self._expression.fullmatch(text, start, len(text) if end is None else end) is not None

    def every(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[Places]:
        for match in self._expression.finditer(text, start, len(text) if end is None else end):
            yield [match.span(number) for number in range(match.re.groups + 1)]


def standard(value: Any) -> Any:
    """A copy of the value with every pattern replaced by one of `re`."""
    if isinstance(value, Pattern):
        return StandardPattern(value)
    if isinstance(value, tuple) and any(isinstance(entry, Pattern) for entry in value):
        return tuple(map(standard, value))
    if isinstance(value, list) and any(isinstance(entry, tuple) for entry in value):
        return [standard(entry) for entry in value]
    return value


@contextmanager
def standard_library() -> Iterator[None]:
    modules: tuple[ModuleType, ...] = (mask, secret_assignments, secret_patterns, secret_search, secret_structures)
    kept = {module: dict(vars(module)) for module in modules}
    table = secret_search.token_table()
    tokens = table._replace(
        by_prefix={prefix: standard(entries) for prefix, entries in table.by_prefix.items()},
        prefix=standard(table.prefix),
        form=standard(table.form),
        any=standard(table.any),
    )
    for module in modules:
        vars(module).update({name: standard(value) for name, value in vars(module).items() if name != "DEFAULT_GROUPS"})
    vars(secret_search)["token_table"] = lambda: tokens
    try:
        yield
    finally:
        for module in modules:
            vars(module).update(kept[module])


def seconds(text: str, *, rounds: int = 3) -> float | None:
    """The best of `rounds`, None when it did not end within the timeout."""

    def stop(*_: object) -> None:
        raise TimeoutError

    masker = Masker(key=b"bench")
    best = float("inf")
    signal.signal(signal.SIGALRM, stop)
    for _ in range(rounds):
        signal.alarm(TIMEOUT)
        started = time.process_time()
        try:
            masker.mask(text)
        except MaskingFailed:
            return None
        finally:
            signal.alarm(0)
        best = min(best, time.process_time() - started)
    return best


def pod(rng: random.Random) -> str:
    name = f"api-{rng.getrandbits(40):x}"
    secret = {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    image = f"registry.test/app@sha256:{rng.getrandbits(256):064x}"
    mounts = [
        {"name": f"data-{number}", "mountPath": f"/var/lib/app/{number}", "readOnly": False} for number in range(3)
    ]
    container = {
        "name": "api",
        "image": image,
        "env": [secret, {"name": "REGION", "value": "eu-west-1"}],
        "volumeMounts": mounts,
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-15T06:00:00Z", "reason": "", "message": ""}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    tolerations = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    ]
    spec = {
        "containers": [container],
        "nodeName": f"node-{rng.randrange(99)}",
        "serviceAccountName": "api",
        "tolerations": tolerations,
    }
    metadata = {
        "name": name,
        "namespace": "prod",
        "uid": f"{rng.getrandbits(128):032x}",
        "labels": {"app": "api", "tier": "web"},
    }
    return (
        json.dumps(
            {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "conditions": conditions}}, indent=1
        )
        + ",\n"
    )


def leaky(rng: random.Random) -> str:
    return log_line(rng) if rng.random() < 0.99 else f"connecting with password=Walnut!{rng.getrandbits(32):x} to db\n"


def ordinary(size: int) -> dict[str, str]:
    return {make.__name__: grown(make, size)[:size] for make in (prose, json_record, log_line, pod, leaky)}


def hostile(size: int) -> dict[str, str]:
    def filled(piece: str) -> str:
        return (piece * (size // len(piece) + 1))[:size]

    return {
        "one value": 'token="' + "A" * (2 * size),
        "spaces": "password" + " " * size,
        "nested quotes": filled("token=\"token='"),
        "deep JSON": '{"data":' * (size // 8),
        "escaped quotes": 'password="' + '\\"' * (size // 2),
        "long runs": "A" * size,
        "dots": filled("eyJabcdefgh."),
        "half a URL": filled("://a:b"),
        "open keys": filled("-----BEGIN PRIVATE KEY-----\n"),
        "commands": filled("mysql "),
        "base64": filled("SGVsbG8gd29ybGQh"),
        "secrets only": filled("password=Walnut!orbit42 "),
    }


def table(
    title: str, texts: dict[str, str], show: Callable[[str, float | None], str]
) -> dict[str, tuple[float | None, float | None]]:
    """Print the seconds of both, and return them: `re`, then ours."""
    with standard_library():
        theirs = {name: seconds(text, rounds=1) for name, text in texts.items()}
    ours = {name: seconds(text) for name, text in texts.items()}
    print(f"\n{title}\n\n{'':16}{'re':>14}{'re2':>14}{'times':>9}")
    for name, text in texts.items():
        their, our = theirs[name], ours[name]
        ratio = f"{their / our:.0f}" if their and our else f"> {TIMEOUT / our:,.0f}" if our else ""
        print(f"{name:16}{show(text, their):>14}{show(text, our):>14}{ratio:>9}")
    return {name: (theirs[name], ours[name]) for name in texts}


def main(*, smoke: bool = False, to: Path | None = None) -> None:
    bars = Bars()
    size, hostile_size = (SIZE // 8, HOSTILE_SIZE // 100) if smoke else (SIZE, HOSTILE_SIZE)
    texts = ordinary(size)
    took_by_name = table(
        f"Ordinary texts, {size // 1024} kB, MB/s",
        texts,
        lambda text, took: f"{len(text) / 1e6 / took:.1f}" if took else "gave up",
    )
    for name, (theirs, ours) in took_by_name.items():
        for way, took in (("the same patterns in re", theirs), ("tersely", ours)):
            bars.add(
                f"Ordinary texts of {size // 1024} kB",
                name,
                way,
                len(texts[name]) / 1e6 / took if took else 0,
                unit="MB/s",
            )
    took_by_name = table(
        f"Hostile texts, {hostile_size // 1000} kB (one: twice that), ms",
        hostile(hostile_size),
        lambda text, took: f"{took * 1000:,.1f}" if took else f"> {TIMEOUT},000",
    )
    for name, (_, ours) in took_by_name.items():
        bars.add(f"Hostile texts of {hostile_size // 1000} kB", name, "tersely", 1e3 * (ours or TIMEOUT), unit="ms")
    bars.write(to)
    print()


if __name__ == "__main__":
    given = parser(__doc__, figures=True).parse_args()
    main(smoke=given.smoke, to=given.json)
