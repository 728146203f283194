"""A short fuzz of every target, and every input that once broke a promise."""

import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from tests.fuzz.__main__ import CRASHES
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import REFUSALS, TARGETS, Target, seeds

INPUTS = 12
OLD = sorted(file for file in CRASHES.iterdir() if not file.name.startswith("."))


@pytest.fixture(scope="module")
def corpus() -> Sequence[bytes]:
    return seeds()


def run(target: Target, data: bytes) -> None:
    with suppress(*REFUSALS):
        target(data)


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_break_no_promise(name: str, corpus: Sequence[bytes]) -> None:
    rng = random.Random(name)
    for _ in range(INPUTS):
        run(TARGETS[name], mutated(rng, corpus))


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.name)
def test_what_once_broke_a_promise_does_so_no_more(file: object) -> None:
    data = file.read_bytes()  # type: ignore[attr-defined]
    for name, target in TARGETS.items():
        if file.name.startswith(name.replace(" ", "-")):  # type: ignore[attr-defined]
            run(target, data)
