"""A project of invented code with real tools' food in it: tests that pass and fail, lint, C, history, data, logs.

Made anew from a seed each time, so that the commands of `bench.commands` run on something whose answers are known.
"""

import json
import random
import subprocess
import textwrap
from pathlib import Path

MODULES = 40
COMMITS = 260
WORDS = ("cart", "order", "invoice", "payment", "refund", "stock", "user", "mail", "search", "report", "price", "tax")


def make_project(folder: Path, seed: int = 1) -> None:
    chance = random.Random(seed)
    _modules(folder, chance)
    _python_tests(folder)
    _c_files(folder)
    _node(folder)
    _data(folder, chance)
    _makefile(folder)
    _history(folder, chance)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text), encoding="utf-8")


def _modules(folder: Path, chance: random.Random) -> None:
    _write(folder / "shop/__init__.py", "")
    for number in range(MODULES):
        word = WORDS[number % len(WORDS)]
        functions = "\n\n\n".join(
            f"def {word}_{number}_{at}(amount: int, rate: float = {chance.random():.2f}) -> float:\n"
            f'    """Return the {word} of step {at}."""\n'
            f"    total = amount * rate\n    if total > {chance.randrange(100, 900)}:\n        total -= {at}\n"
            f"    return total"
            for at in range(8)
        )
        extra = ""
        if number == 23:
            extra = "\n\n\ndef round_up(value: float) -> int:\n    return math.ceil(valeu)\n"
        if number == 31:
            extra = '\n\n\ndef label(count: int) -> str:\n    return count + " pieces"\n'
        _write(folder / f"shop/{word}_{number:02d}.py", f"import math\nimport os\n\n\n{functions}{extra}\n")


def _python_tests(folder: Path) -> None:
    def tests(start: int, count: int) -> str:
        return "\n\n".join(
            f"@pytest.mark.parametrize('amount', range(5))\ndef test_{WORDS[at % len(WORDS)]}_{at}(amount):\n"
            f"    assert amount * 2 == amount + amount"
            for at in range(start, start + count)
        )

    for number in range(12):
        _write(
            folder / f"tests/passing/test_part_{number:02d}.py", "import pytest\n\n\n" + tests(number * 20, 12) + "\n"
        )
        _write(
            folder / f"tests/failing/test_more_{number:02d}.py", "import pytest\n\n\n" + tests(number * 20, 12) + "\n"
        )
    _write(
        folder / "tests/failing/test_more_07b.py",
        """\
        import logging


        def refund(order, percent):
            logging.warning("refund of %s with %s percent", order, percent)
            return order["total"] * percent / 1000


        def test_refund_is_a_tenth():
            assert refund({"id": 4711, "total": 250}, 10) == 25


        def test_refund_needs_a_total():
            refund({"id": 4712}, 10)
        """,
    )
    _write(
        folder / "tests/broken/test_imports.py",
        "from shop.vouchers import apply_voucher\n\n\ndef test_it():\n    apply_voucher()\n",
    )
    for number in range(6):
        body = "\n".join(
            f"    def test_{WORDS[at % len(WORDS)]}_{at}(self):\n        self.assertEqual({at} * 2, {at} + {at})\n"
            for at in range(60)
        )
        wrong = (
            "    def test_currency_of_refunds(self):\n        self.assertEqual('EUR', 'USD', 'refund 4711')\n"
            if number == 4
            else ""
        )
        _write(
            folder / f"unit/test_unit_{number}.py",
            f"import unittest\n\n\nclass Part{number}(unittest.TestCase):\n{body}\n{wrong}",
        )


def _c_files(folder: Path) -> None:
    for number in range(40):
        unused = "".join(f"    int unused_{at} = {at};\n" for at in range(4))
        wrong = "    return stock_lvel;\n" if number == 27 else "    return level;\n"
        _write(
            folder / f"c/part_{number:02d}.c",
            f'#include <stdio.h>\nint part_{number:02d}(int level) {{\n{unused}    if (level = {number}) {{ puts("set"); }}\n{wrong}}}\n',
        )


def _node(folder: Path) -> None:
    passing = "\n".join(f"test('adds {at}', () => assert.equal({at} + 1, {at + 1}));" for at in range(250))
    head = "const test = require('node:test');\nconst assert = require('node:assert');\n"
    _write(folder / "js/passing.test.js", head + passing + "\n")
    wrong = "test('rounds the price of 4711', () => assert.equal(Math.round(24.4), 25, 'price of 4711'));\n"
    _write(folder / "js/failing.test.js", head + passing + "\n" + wrong)
    chain = "\n".join(f"function step{at}(x) {{ return step{at + 1}(x); }}" for at in range(60))
    _write(
        folder / "js/crash.js",
        f"{chain}\nfunction step60(x) {{ return x.price.amount; }}\nfor (let i = 0; i < 900; i++) console.log('loaded article ' + i);\nstep0({{}});\n",
    )


def _data(folder: Path, chance: random.Random) -> None:
    pods = [
        {
            "metadata": {
                "name": f"{chance.choice(WORDS)}-{number:03d}",
                "namespace": "shop",
                "labels": {"app": "shop", "tier": chance.choice(["a", "b"])},
            },
            "spec": {
                "nodeName": f"node-{number % 9}",
                "containers": [
                    {"name": "app", "image": f"shop:{1 + number % 3}.4", "resources": {"limits": {"memory": "512Mi"}}}
                ],
            },
            "status": {
                "phase": "Running",
                "restartCount": chance.randrange(3),
                "podIP": f"10.0.{number // 250}.{number % 250}",
            },
        }
        for number in range(180)
    ]
    pods[117]["status"] = {
        "phase": "CrashLoopBackOff",
        "restartCount": 41,
        "reason": "OOMKilled",
        "podIP": "10.0.0.117",
    }
    pods[117]["metadata"]["name"] = "checkout-7f9"
    _write(folder / "data/pods.json", json.dumps({"kind": "List", "items": pods}, indent=2))
    lines = []
    for number in range(4_000):
        level = "INFO"
        said = f"GET /{chance.choice(WORDS)}/{chance.randrange(9999)} 200 {chance.randrange(2, 90)} ms"
        if number == 2_871:
            level, said = "ERROR", "payment gateway refused: certificate of pay.example expired"
        lines.append(
            f"2026-11-15T{9 + number // 1200:02d}:{number // 20 % 60:02d}:{number * 3 % 60:02d}Z {level} shop {said}"
        )
    _write(folder / "data/app.log", "\n".join(lines) + "\n")
    rows = [
        f"{number},{chance.choice(WORDS)},{chance.randrange(1, 500)},{chance.choice(['paid', 'open'])}"
        for number in range(1_500)
    ]
    rows[900] = "900,refund,-4711,disputed"
    _write(folder / "data/orders.csv", "id,article,amount,state\n" + "\n".join(rows) + "\n")
    services = "\n".join(
        f"  {word}-{number}:\n    image: shop/{word}:1.{number}\n    ports: ['{8000 + number}:80']\n    restart: always"
        for number, word in enumerate(WORDS * 12)
    ).replace("shop/tax:1.107", "shop/tax:latest-debug")
    _write(folder / "data/compose.yaml", f"services:\n{services}\n")
    options = "\n".join(
        f"# {word} of the cache, in seconds\n{word}_timeout = {10 + number}\n" for number, word in enumerate(WORDS * 20)
    )
    _write(folder / "data/shop.conf", options.replace("mail_timeout = 137", "mail_timeout = 9000"))
    script = """\
        import sys
        for number in range(1500):
            print(f"migrating row {number} of orders: ok")
            if number == 1183:
                print("migrating row 1183 of orders: constraint fk_customer violated, row skipped", file=sys.stderr)
        sys.exit(3)
        """
    _write(folder / "data/migrate.py", script)
    deep = "def deep(n):\n    if n == 0:\n        raise KeyError('voucher 4711')\n    return deep(n - 1)\n\nfor n in range(800):\n    print('warming', n)\ndeep(200)\n"
    _write(folder / "data/deep.py", deep)


def _makefile(folder: Path) -> None:
    objects = " ".join(f"part_{number:02d}.o" for number in range(40))
    _write(
        folder / "c/Makefile",
        f"OBJECTS = {objects}\n\nall: $(OBJECTS)\n\techo linked\n\n%.o: %.c\n\tgcc -std=c17 -Wall -Wextra -O2 -fPIC -Iinclude -DNAME=shop -c $< -o $@\n\nclean:\n\trm -f *.o\n",
    )


def _history(folder: Path, chance: random.Random) -> None:
    """Commits by `fast-import`, one of which matters; then the working tree is added."""
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    stream: list[str] = []
    content = {f"shop/{word}.txt": "" for word in WORDS}
    for number in range(COMMITS):
        name = chance.choice(sorted(content))
        said = f"{Path(name).stem}: change step {number}"
        line = f"value of {Path(name).stem} in step {number} is {chance.randrange(9999)}\n"
        if number == 137:
            name, said, line = (
                "shop/payment.txt",
                "payment: trust the certificate of pay.example",
                "pinned certificate 4711\n",
            )
        content[name] = (content[name] + line)[-4_000:]
        when = 1_760_000_000 + number * 3_600
        who = ("Kim Doe <kim@example.org>", "Ana Roe <ana@example.org>", "Li Wu <li@example.org>")[number % 3]
        body = content[name]
        stream += [
            f"commit refs/heads/main\nmark :{number + 1}\nauthor {who} {when} +0000\ncommitter {who} {when} +0000",
            f"data {len(said)}\n{said}",
            *([f"from :{number}"] if number else []),
            f"M 100644 inline {name}\ndata {len(body)}\n{body}",
        ]
    subprocess.run(["git", "fast-import", "--quiet"], input="\n".join(stream) + "\n", text=True, cwd=folder, check=True)
    git = ["git", "-c", "user.name=Kim Doe", "-c", "user.email=kim@example.org"]
    subprocess.run([*git, "reset", "-q"], cwd=folder, check=True)
    subprocess.run([*git, "checkout", "-q", "--", "."], cwd=folder, check=True)
    subprocess.run([*git, "add", "shop", "tests", "unit", "c", "js"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "all: add the shop"], cwd=folder, check=True)
    for number in range(0, MODULES, 2):
        file = folder / f"shop/{WORDS[number % len(WORDS)]}_{number:02d}.py"
        file.write_text(file.read_text().replace("total -= 3", "total -= 4").replace("total -= 5", "total += 5"))
    file = folder / "shop/report_09.py"
    file.write_text(file.read_text().replace("def report_9_0(amount: int", "def report_9_0(amount: int, currency: str"))
    for number in range(150):
        _write(folder / f"out/trace-{number:03d}.txt", f"trace {number}\n")
    _write(folder / "out/core.4711", "dumped\n")
