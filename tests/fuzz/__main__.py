"""Fuzzing: bytes that nobody would send, into everything that reads what others send.

    python -m tests.fuzz                          every target in turn, ten seconds each
    python -m tests.fuzz --seconds 600 --only mask
    python -m tests.fuzz --input FILE --only mask one input again

An input that breaks a promise is written to `tests/fuzz/crashes`; the tests run every file there. The schema of the API
is fuzzed by `tests/web/test_schemathesis.py`. With `atheris` installed, the inputs follow the code they reach; without
it, they are mutations of texts of every shape.
"""

import argparse
import hashlib
import random
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import REFUSALS, TARGETS, seeds

CRASHES = Path(__file__).with_name("crashes")


def run(name: str, data: bytes) -> bool:
    """Run one input; False if it broke a promise, which is then on record."""
    try:
        TARGETS[name](data)
    except REFUSALS:
        return True
    except Exception:
        file = CRASHES / f"{name.replace(' ', '-')}-{hashlib.sha256(data).hexdigest()[:12]}"
        file.write_bytes(data)
        print(f"{name}: a promise is broken by {file.name}\n{traceback.format_exc(limit=-3)}", flush=True)
        return False
    return True


def guided(name: str, seconds: int) -> None:
    """One target under atheris, which ends the process itself."""
    import atheris  # type: ignore[import-untyped]

    def one(data: bytes) -> None:
        if not run(name, data):
            raise AssertionError(name)

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=20000"], one)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz what reads other people's bytes.")
    parser.add_argument("--seconds", type=int, default=10, help="for each target")
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run; chosen by the time otherwise")
    parser.add_argument("--input", type=Path, help="run this file instead")
    parser.add_argument("--guided", action="store_true", help="with atheris; needs --only to name one target")
    options = parser.parse_args()
    names = [name for name in TARGETS if options.only in name]
    if options.input:
        outcomes = [run(name, options.input.read_bytes()) for name in names]
        return 0 if all(outcomes) else 1
    if options.guided:
        guided(names[0], options.seconds)
    seed = options.seed if options.seed is not None else int(time.time())
    rng, corpus, broken = random.Random(seed), seeds(), 0
    for name in names:
        count, until, failures = 0, time.monotonic() + options.seconds, 0
        while time.monotonic() < until and failures < 3:
            failures += not run(name, mutated(rng, corpus))
            count += 1
        broken += failures
        print(f"{name:28} {count:>7,} inputs, {failures} broken", flush=True)
    print(f"seed {seed}: {broken} inputs broke a promise")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
