"""Invented secrets, by shape."""

import base64
import random
import string
from collections.abc import Callable

_WORDS = [
    "walnut",
    "orbit",
    "kestrel",
    "quartz",
    "harbor",
    "velvet",
    "copper",
    "juniper",
    "maple",
    "raven",
    "saffron",
    "tundra",
    "willow",
    "zephyr",
    "ember",
    "falcon",
]
_LETTERS = string.ascii_letters + string.digits


def spoken(rng: random.Random) -> str:
    """As people choose them: Walnut!orbit42."""
    first, second = rng.sample(_WORDS, 2)
    return f"{first.title()}{rng.choice('!@_-+%')}{second}{rng.randrange(10, 9999)}".replace("@", "!")


def coined(rng: random.Random) -> str:
    """As people choose them who like hyphens: walnut-Orbit-42."""
    first, second = rng.sample(_WORDS, 2)
    return f"{first}-{second.title()}-{rng.randrange(10, 99)}"


def leet(rng: random.Random) -> str:
    """With a digit for a letter: w4lnut-Orbit."""
    first, second = rng.sample([word for word in _WORDS if set(word[1:-2]) & set("aeio")], 2)
    at = next(at for at, char in enumerate(first) if at and char in "aeio")
    return f"{first[:at]}{'4310'['aeio'.index(first[at])]}{first[at + 1 :]}-{second.title()}"


def generated(rng: random.Random) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.randrange(16, 33)))


def symbols(rng: random.Random) -> str:
    """From a password manager."""
    return rng.choice(_LETTERS) + "".join(rng.choices(_LETTERS + "!%*+-_~.^", k=rng.randrange(13, 20))) + "7a"


def hexadecimal(rng: random.Random) -> str:
    return f"{rng.getrandbits(128):032x}"


def in_base64(rng: random.Random) -> str:
    return base64.b64encode(rng.randbytes(32)).decode()


def url_safe(rng: random.Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(32)).decode().rstrip("=")


def short(rng: random.Random) -> str:
    return f"{rng.choice(_WORDS)}{rng.randrange(10, 99)}"


SHAPES: tuple[Callable[[random.Random], str], ...] = (spoken, generated, symbols, hexadecimal, in_base64)


def mnemonic(rng: random.Random) -> str:
    words = [
        "abandon",
        "ability",
        "able",
        "about",
        "above",
        "absent",
        "absorb",
        "abstract",
        "absurd",
        "abuse",
        "access",
        "accident",
        "acid",
        "acoustic",
        "across",
        "act",
        "zebra",
        "zone",
        "wisdom",
        "wolf",
        "yellow",
        "young",
        "violin",
        "village",
        "uncle",
        "turtle",
        "tomato",
        "thunder",
        "symbol",
        "sunset",
        "spirit",
        "soap",
    ]
    return " ".join(rng.choices(words, k=12))


def key_lines(rng: random.Random, lines: int) -> list[str]:
    body = base64.b64encode(rng.randbytes(48 * lines - 7)).decode()
    return [body[at : at + 64] for at in range(0, len(body), 64)]
