"""Builds the cases. See the package's docstring."""

import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.secrets import documents, negatives, parts, values

Shape = Callable[[random.Random], str]


@dataclass(frozen=True, kw_only=True)
class SecretCase:
    family: str
    text: str
    secrets: tuple[str, ...]
    held_out: bool
    keep: tuple[str, ...] = ()
    """Words that are still there after masking."""
    form: str = ""
    """`json` or `yaml`: what the text parses as, before and after."""


@dataclass(frozen=True, kw_only=True)
class PlainCase:
    family: str
    text: str
    held_out: bool = field(default=False)


def is_held_out(part: str) -> bool:
    """A quarter of all parts, chosen by their text."""
    return bool(part) and zlib.crc32(part.encode()) % 4 == 0


def _filled(template: str, name: str, value: str) -> str:
    return template.replace("«n»", name).replace("«N»", name.upper()).replace("«v»", value)


def _case(family: str, rng: random.Random, template: parts.Template, name: str, *also: str, shape: Shape | None = None,
          encode: Callable[[str], str] = lambda name: name, wrap: str = "«v»") -> SecretCase:  # fmt: skip
    value = (shape or rng.choice(values.SHAPES))(rng)
    text = _filled(template.text, encode(name), wrap.replace("«v»", value))
    return SecretCase(
        family=family,
        text=text,
        secrets=(value,),
        held_out=any(map(is_held_out, (template.text, name, *also))),
        keep=template.keep,
        form=template.form,
    )


def positives(seed: int = 17, *, smoke: bool = False) -> Iterator[SecretCase]:
    rng = random.Random(seed)
    makers = (_plain, _wrapped, _encoded, _foreign, _sentences, _commands, _addresses, _stores, _keys, _hashes, _places)
    for make in makers:
        cases: Iterable[SecretCase] = make(rng)
        yield from list(cases)[:: 20 if smoke else 1]


def _plain(rng: random.Random) -> Iterator[SecretCase]:
    for template in parts.SYNTAXES:
        for name in rng.sample(parts.NAMES, 12):
            yield _case("names and syntaxes", rng, template, name)
    for name in parts.NAMES:
        for template in rng.sample(parts.SYNTAXES, 4):
            yield _case("names and syntaxes", rng, template, name)
    for name in parts.RANDOM_NAMES:
        for template in rng.sample(parts.SYNTAXES[:24], 4):
            shape = rng.choice((values.hexadecimal, values.generated))
            yield _case("names of generated values", rng, template, name, shape=shape)


def _wrapped(rng: random.Random) -> Iterator[SecretCase]:
    for wrapper in parts.WRAPPERS:
        for name in rng.sample(parts.NAMES, 6):
            template = rng.choice(parts.BARE_SYNTAXES)
            yield _case("values in wrappers", rng, template, name, wrapper, wrap=wrapper)
    for template in parts.LINES:
        for name in rng.sample(parts.NAMES, 6):
            yield _case("tables and next lines", rng, template, name)


def _with(encode: Callable[[str, random.Random], str], rng: random.Random) -> Callable[[str], str]:
    return lambda name: encode(name, rng)


def _encoded(rng: random.Random) -> Iterator[SecretCase]:
    for label, encode in parts.ENCODINGS.items():
        for template in rng.sample(parts.SYNTAXES[:24], 5):
            name = rng.choice(parts.NAMES)
            yield _case("encoded names", rng, template, name, label, encode=_with(encode, rng))
    for label, quote in parts.ENCODED_TEXTS.items():
        for template in rng.sample(parts.SYNTAXES[:24], 6):
            case = _case("encoded texts", rng, template, rng.choice(parts.NAMES), label)
            yield SecretCase(
                family=case.family, text=quote(case.text), secrets=case.secrets, held_out=case.held_out, keep=()
            )


def _foreign(rng: random.Random) -> Iterator[SecretCase]:
    for name in parts.FOREIGN_NAMES:
        for template in (*rng.sample(parts.SYNTAXES[:12], 3), rng.choice(parts.LINES)):
            yield _case("non-English names", rng, template, name)
    for template in parts.FOREIGN_SENTENCES:
        for shape in (values.spoken, values.symbols):
            yield _case("non-English sentences", rng, template, "", shape=shape)


def _sentences(rng: random.Random) -> Iterator[SecretCase]:
    for template in parts.SENTENCES:
        for name in rng.sample(parts.SPOKEN_NAMES, 4):
            yield _case("sentences", rng, template, name, shape=rng.choice((values.spoken, values.generated)))


def _commands(rng: random.Random) -> Iterator[SecretCase]:
    for template in parts.COMMANDS:
        for shape in (values.spoken, values.generated):
            yield _case("command lines", rng, template, "", shape=shape)


def _addresses(rng: random.Random) -> Iterator[SecretCase]:
    for template in parts.ADDRESSES:
        for shape in (values.spoken, values.generated):
            yield _case("addresses and DSNs", rng, template, "", shape=shape)


def _documents(family: str, builders: Iterable[documents.Builder], rng: random.Random) -> Iterator[SecretCase]:
    for build in builders:
        for _ in range(3):
            document = build(rng)
            yield SecretCase(
                family=family,
                text=document.text,
                secrets=document.secrets,
                held_out=is_held_out(build.__name__),
                keep=document.keep,
                form=document.form,
            )


def _stores(rng: random.Random) -> Iterator[SecretCase]:
    yield from _documents("secret stores", documents.STORES, rng)


def _keys(rng: random.Random) -> Iterator[SecretCase]:
    yield from _documents("private keys", documents.KEYS, rng)


def _hashes(rng: random.Random) -> Iterator[SecretCase]:
    yield from _documents("password files and codes", documents.FILES, rng)


_WITHOUT = "without a secret"


@cache
def _systems() -> dict[str, list[str]]:
    """Lines of many systems by family, from `places.txt`: `«v»` stands for the secret."""
    text = Path(__file__).with_name("places.txt").read_text(encoding="utf-8")
    families = (part.partition("\n") for part in f"\n{text}".split("\n== ")[1:])
    return {family: lines.strip("\n").split("\n%%\n") for family, _, lines in families}


def _places(rng: random.Random) -> Iterator[SecretCase]:
    for family, lines in _systems().items():
        for line in lines if family != _WITHOUT else ():
            for shape in (values.coined, values.leet, values.generated):
                yield _case(family, rng, parts.Template(line), "", shape=shape)


def plain_texts(seed: int = 17, *, smoke: bool = False) -> Iterator[PlainCase]:
    rng = random.Random(seed)
    for family, texts in negatives.TEXTS.items():
        for text in texts[:: 20 if smoke else 1]:
            yield PlainCase(family=family, text=negatives.filled(text, rng), held_out=is_held_out(text))
    for text in _systems()[_WITHOUT][:: 20 if smoke else 1]:
        yield PlainCase(family="lines of many systems", text=text, held_out=is_held_out(text))
