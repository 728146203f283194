"""Search for texts that change when they are masked again, and for documents that no longer parse after masking.

    .venv/bin/python -m bench.masking_stability [--smoke] [--seconds N] [--seed N] [--show N] [--corpus FILE ...]

Starts from the cases of `bench.secrets` (and, with `--corpus`, from lines of JSON with a `text`, plain or
compressed), mutates them, and writes invented documents as JSON, YAML, TOML, XML and INI. Prints how many were tried
and what failed.
"""

import configparser
import gzip
import io
import json
import random
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.arguments import parser
from bench.secrets import parts, values
from bench.secrets.cases import plain_texts, positives
from tersely.masking.mask import Masker

SIGNS = (
    '"', "'", "`", "\\", '\\"', "\\'", "''", "\n", "\r\n", "\t", " ", ":", ": ", "=", " = ", ",", "{", "}", "[", "]",
    "(", ")", "<", ">", "|", "#", "&quot;", "&#61;", "%3D", "\\u0022", "\\n", "- ", "---\n", "@", "://", "$", "${",
    "\u200b", "“", "│", "[MASKED:", "[MASKED:password:0123456789ab]", "[masked elsewhere:x:0123]", "password=", "key: ",
    "is ",
)  # fmt: skip
VALUES: tuple[Callable[[random.Random], str], ...] = (
    *values.SHAPES,
    lambda rng: "a'" + values.spoken(rng),
    lambda rng: values.spoken(rng) + '"x\\',
    lambda rng: "\\" + values.spoken(rng) + "''",
    lambda rng: values.spoken(rng) + ": " + values.spoken(rng),
    lambda rng: values.spoken(rng) + " # " + values.spoken(rng),
    lambda rng: "{" + values.generated(rng) + "}",
    lambda rng: "[" + values.generated(rng) + ", x]",
    lambda rng: "&" + values.generated(rng) + "<",
    lambda rng: "- " + values.spoken(rng),
    lambda rng: values.spoken(rng) + "\n" + values.spoken(rng),
    lambda rng: "%" + values.symbols(rng),
    lambda rng: str(rng.randrange(10**15)),
    lambda rng: rng.choice(("changeme", "${DB_PASSWORD}", "", "true", "null", "16 bytes")),
)
PLAIN_NAMES = ("name", "value", "host", "user", "kind", "data", "type", "items", "env", "status", "replicas", "key")


def document(rng: random.Random, depth: int = 0) -> Any:
    """An invented document: nested mappings and lists of names, secrets and ordinary values."""
    if depth and rng.random() < 0.55 + depth / 8:
        return rng.choice(VALUES)(rng) if rng.random() < 0.8 else rng.choice((True, None, 7, 1.5, 443211))
    if depth and rng.random() < 0.3:
        return [document(rng, depth + 1) for _ in range(rng.randrange(4))]
    found = {
        rng.choice(parts.NAMES if rng.random() < 0.6 else PLAIN_NAMES): document(rng, depth + 1)
        for _ in range(rng.randrange(1, 6))
    }
    return {"kind": "Secret", **found} if rng.random() < 0.15 else found


def as_toml(content: Any) -> str:
    return "".join(f"{json.dumps(name)} = {_toml(value)}\n" for name, value in content.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str) and "'" not in value and "\n" not in value and len(value) % 2:
        return f"'{value}'"
    return json.dumps("" if value is None else value)


def as_xml(content: Any) -> str:
    def build(parent: ET.Element, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(inner, str) and len(inner) % 3 == 0:
                    ET.SubElement(parent, "property", {"name": name, "value": inner})
                else:
                    build(ET.SubElement(parent, name), inner)
        elif isinstance(value, list):
            for inner in value:
                build(ET.SubElement(parent, "item"), inner)
        else:
            parent.text = str(value)

    root = ET.Element("config")
    build(root, content)
    return ET.tostring(root, encoding="unicode")


def as_ini(content: Any) -> str:
    written = configparser.RawConfigParser()
    written["main"] = {
        name: str(value).replace("\n", " ") for name, value in content.items() if not isinstance(value, dict)
    }
    for name, value in content.items():
        if isinstance(value, dict):
            written[name] = {inner: str(one).replace("\n", " ") for inner, one in value.items()}
    file = io.StringIO()
    written.write(file)
    return file.getvalue()


def read_ini(text: str) -> None:
    configparser.RawConfigParser(strict=False).read_string(text)


FORMS: dict[str, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    "JSON": (json.dumps, json.loads),
    "JSON, indented": (lambda content: json.dumps(content, indent=2), json.loads),
    "JSON in JSON": (lambda content: json.dumps({"body": json.dumps(content)}), json.loads),
    "YAML": (yaml.safe_dump, lambda text: list(yaml.safe_load_all(text))),
    "YAML, flow": (
        lambda content: yaml.safe_dump(content, default_flow_style=True, width=10_000),
        lambda text: list(yaml.safe_load_all(text)),
    ),
    "YAML, quoted": (
        lambda content: yaml.safe_dump(content, default_style="'", width=10_000),
        lambda text: list(yaml.safe_load_all(text)),
    ),
    "TOML": (as_toml, tomllib.loads),
    "XML": (as_xml, ET.fromstring),
    "INI": (as_ini, read_ini),
}


def mutated(rng: random.Random, text: str, others: list[str]) -> str:
    for _ in range(rng.randrange(1, 4)):
        at, to = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        match rng.randrange(6):
            case 0:
                text = text[:at] + rng.choice(SIGNS) + text[at:]
            case 1:
                text = text[:at] + text[min(to, at + 5) :]
            case 2:
                text = text[:to] + rng.choice(others)[:400]
            case 3:
                text = text[:at] + text[at:to].swapcase() + text[to:]
            case 4:
                text = json.dumps({"log": text})
            case _:
                text = text[:to] + text[at:to] + text[to:]
    return text[:4_000]


def texts_of(files: list[Path]) -> Iterator[str]:
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["text"]


def parses(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except Exception:  # noqa: BLE001
        # Each parser has its own errors, and some break on hostile text with others.
        return False
    return True


def search(seeds: list[str], *, seed: int, seconds: float, at_most: int) -> tuple[Counter[str], dict[str, list[str]]]:
    """What was tried, by kind, and the texts that failed, by kind."""
    rng, masker = random.Random(seed), Masker(key=b"bench")
    tried: Counter[str] = Counter()
    failed: dict[str, list[str]] = {}

    def stable(kind: str, text: str) -> str:
        tried[kind] += 1
        once = masker.mask(text)
        if masker.mask(once) != once:
            failed.setdefault(kind, []).append(text)
        return once

    for text in seeds:
        stable("as they are", text)
    end = time.monotonic() + seconds
    for _ in range(at_most):
        if time.monotonic() > end:
            break
        stable("mutated", mutated(rng, rng.choice(seeds), seeds))
        content = document(rng)
        for form, (write, read) in FORMS.items():
            try:
                text = write(content)
            except (ValueError, TypeError, configparser.Error):
                continue
            if not parses(read, text):
                continue
            if not parses(read, stable(form, text)):
                failed.setdefault(f"{form}, broken", []).append(text)
    return tried, failed


def main(*, smoke: bool, seconds: float, seed: int, show: int, corpus: list[Path]) -> None:
    seeds = [case.text for case in positives(smoke=smoke)] + [case.text for case in plain_texts(smoke=smoke)]
    seeds += texts_of(corpus)
    tried, failed = search(seeds, seed=seed, seconds=seconds, at_most=20 if smoke else 10**9)
    print(f"{'':24}{'tried':>10}{'unstable':>10}{'broken':>10}")
    for kind, count in tried.items():
        print(f"{kind:24}{count:>10,}{len(failed.get(kind, ())):>10}{len(failed.get(f'{kind}, broken', ())):>10}")
    masker = Masker(key=b"bench")
    for kind, texts in failed.items():
        for text in sorted(texts, key=len)[:show]:
            print(f"\n{kind}: {text!r}\n  once  {masker.mask(text)!r}\n  twice {masker.mask(masker.mask(text))!r}")


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--show", type=int, default=0, help="the shortest N of each kind that failed")
    arguments.add_argument("--corpus", type=Path, nargs="*", default=[])
    options = arguments.parse_args()
    main(
        smoke=options.smoke, seconds=options.seconds, seed=options.seed, show=options.show, corpus=options.corpus
    )  # fmt: skip
