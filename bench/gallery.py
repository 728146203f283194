"""Twelve texts of different kinds, before and after condensing: generates docs/gallery.md.

    python -m bench.gallery            write the page
    python -m bench.gallery --print    print it
    python -m bench.gallery --smoke    make it, write nothing, list what is missing

The texts are generated from a seed and contain no real data. Each has a question and the
phrases that are needed to find the cause; the page lists missing ones. The command exits
with an error if there are any, or if a statement on the page is not so (`bench.truth`).
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench import truth
from bench.arguments import parser
from bench.generator.vocabulary import ADJECTIVES, FAMILY_NAMES, PLACES, THINGS, hex_digits
from tersely.condensing.structural import condense_structurally

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"


@dataclass(frozen=True)
class Exhibit:
    title: str
    make: Callable[[Random], str]
    focus: str
    budget: int
    cause: tuple[str, ...]
    """Without these words the reader would not know."""


def _two(rng: Random) -> str:
    return f"{rng.choice(ADJECTIVES)}-{rng.choice(THINGS)}"


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def pods(rng: Random) -> str:
    rows = [["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]]
    for _ in range(420):
        name = f"{_two(rng)}-{hex_digits(rng, 9)}-{hex_digits(rng, 5)}"
        rows.append(
            [
                rng.choice(("shop", "billing", "edge", "platform")),
                name,
                "1/1",
                "Running",
                str(rng.choice((0, 0, 0, 1))),
                f"{rng.randint(2, 60)}d",
            ]
        )
    rows[271] = ["billing", "invoice-renderer-6c9f7d5b8-x2kqp", "0/1", "CrashLoopBackOff", "137 (2m ago)", "11h"]
    rows[272] = ["billing", "invoice-renderer-6c9f7d5b8-m8zvd", "1/1", "Running", "136 (6m ago)", "11h"]
    return _table(rows)


def buckets(rng: Random) -> str:
    found = []
    for index in range(160):
        name = f"{_two(rng)}-{index:03d}"
        found.append(
            {
                "Name": name,
                "CreationDate": f"2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}T08:00:00Z",
                "Region": rng.choice(("eu-north", "eu-west", "us-east")),
                "Encryption": {"Algorithm": "aws:kms", "KeyId": hex_digits(rng, 16)},
                "PublicAccessBlock": {"BlockPublicAcls": True, "IgnorePublicAcls": True, "RestrictPublicBuckets": True},
                "Versioning": rng.choice(("Enabled", "Enabled", "Suspended")),
                "SizeBytes": rng.randint(10**6, 10**11),
                "Tags": [
                    {"Key": "team", "Value": rng.choice(("web", "data", "ops"))},
                    {"Key": "cost", "Value": str(rng.randint(100, 999))},
                ],
            }
        )
    odd = found[93]
    odd["Name"] = "customer-exports-2026"
    odd["PublicAccessBlock"] = {"BlockPublicAcls": False, "IgnorePublicAcls": True, "RestrictPublicBuckets": False}
    return json.dumps({"Buckets": found, "Owner": {"DisplayName": "platform"}}, indent=2)


def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def app_log(rng: Random) -> str:
    lines = []
    for index in range(2_600):
        second = 32_000 + index * 3
        stamp = f"2026-09-14 {_clock(second)},{rng.randint(0, 999):03d}"
        if index == 1_304:
            lines.append(
                f"{stamp} INFO  [migrations] taking ACCESS EXCLUSIVE lock on table orders for migration "
                "0042_add_tax_column"
            )
        elif index > 1_304 and rng.random() < 0.25:
            waited = f"after {rng.randint(3000, 3100)} ms (20 of 20 in use)"
            lines.append(
                f"{stamp} ERROR [orders-api] POST /orders failed: could not get a connection from the pool {waited}"
            )
        elif rng.random() < 0.03:
            lines.append(
                f"{stamp} WARN  [mailer] greylisted by {rng.choice(PLACES).lower()}.example, trying again in "
                f"{rng.randint(1, 9)} min"
            )
        else:
            message = rng.choice(
                (
                    f"[orders-api] GET /orders/{rng.randint(10_000, 99_999)} 200 in {rng.randint(3, 90)} ms",
                    f"[orders-api] GET /health 200 in {rng.randint(1, 4)} ms",
                    f"[search] indexed {rng.randint(10, 900)} products in {rng.randint(20, 300)} ms",
                    f"[sessions] session {hex_digits(rng, 12)} renewed",
                )
            )
            lines.append(f"{stamp} INFO  {message}")
    return "\n".join(lines)


def stores(rng: Random) -> str:
    lines = ["week,store,city,revenue_eur,margin_pct,returns,staff"]
    for week in range(28, 37):
        for store in range(60):
            margin = round(rng.uniform(18, 31), 1)
            figures = [rng.randint(40_000, 190_000), margin, rng.randint(10, 90), rng.randint(6, 30)]
            lines.append(f"{week},S{store:03d},{PLACES[store % len(PLACES)]}," + ",".join(map(str, figures)))
    lines[250] = "32,S009,Fukuoka,88410,3.7,412,11"
    return "\n".join(lines)


def node(rng: Random) -> str:
    pod_rows = []
    for _ in range(90):
        place, name = rng.choice(("shop", "edge", "billing")), f"{_two(rng)}-{hex_digits(rng, 5)}"
        pod_rows.append(
            f"  {place:<9}  {name:<26} {rng.randint(1, 20) * 10}m (1%)  {rng.randint(1, 9) * 64}Mi (1%)  "
            f"{rng.randint(1, 60)}d"
        )
    labels = [f"                    {_two(rng)}.example/{rng.choice(THINGS)}={hex_digits(rng, 6)}" for _ in range(25)]
    return "\n".join(
        [
            "Name:               worker-17",
            "Roles:              <none>",
            "Labels:             kubernetes.io/arch=amd64",
            *labels,
            "Taints:             node.kubernetes.io/disk-pressure:NoSchedule",
            "Unschedulable:      false",
            "Conditions:",
            "  Type             Status  LastTransitionTime               Reason                       Message",
            "  ----             ------  ------------------               ------                       -------",
            (
                "  MemoryPressure   False   Mon, 14 Sep 2026 08:02:11 +0000  KubeletHasSufficientMemory   kubelet has "
                "sufficient memory"
            ),
            (
                "  DiskPressure     True    Mon, 14 Sep 2026 11:47:52 +0000  KubeletHasDiskPressure       kubelet has "
                "disk pressure"
            ),
            (
                "  PIDPressure      False   Mon, 14 Sep 2026 08:02:11 +0000  KubeletHasSufficientPID      kubelet has "
                "sufficient PID available"
            ),
            (
                "  Ready            True    Mon, 14 Sep 2026 08:02:21 +0000  KubeletReady                 kubelet is "
                "posting ready status"
            ),
            "Addresses:",
            "  InternalIP:  10.20.4.17",
            "  Hostname:    worker-17",
            "Capacity:",
            "  cpu:                16",
            "  ephemeral-storage:  101430960Ki",
            "  memory:             65808048Ki",
            "  pods:               110",
            "System Info:",
            f"  Machine ID:                 {hex_digits(rng, 32)}",
            "  Kernel Version:             6.8.0-45-generic",
            "  Container Runtime Version:  containerd://1.7.22",
            "Non-terminated Pods:          (90 in total)",
            "  Namespace  Name                      CPU Requests  Memory Requests  Age",
            *pod_rows,
            "Allocated resources:",
            "  Resource           Requests      Limits",
            "  cpu                9210m (57%)   22 (137%)",
            "  memory             31Gi (49%)    58Gi (92%)",
            "Events:",
            "  Type     Reason                 Age                 From     Message",
            "  ----     ------                 ----                ----     -------",
            "  Warning  EvictionThresholdMet   4m (x61 over 3h)    kubelet  Attempting to reclaim ephemeral-storage",
            "  Warning  FreeDiskSpaceFailed    2m (x58 over 3h)    kubelet  "
            "Failed to garbage collect required amount of images. Wanted to free 9121456128 bytes, but freed 0 bytes",
            (
                "  Normal   NodeHasDiskPressure    3h                  kubelet  Node worker-17 status is now: "
                "NodeHasDiskPressure"
            ),
        ]
    )


def manifests(rng: Random) -> str:
    documents = []
    for index in range(70):
        name = "checkout-worker" if index == 41 else _two(rng)
        documents.append(
            f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {rng.choice(("shop", "billing", "edge"))}
  labels:
    app: {name}
    team: {rng.choice(("web", "data", "ops"))}
spec:
  replicas: {rng.randint(1, 6)}
  template:
    spec:
      containers:
      - name: main
        image: registry.example/{name}:{rng.randint(1, 4)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}
        resources:
          limits:
            cpu: {rng.choice(("250m", "500m", "1"))}
            memory: {"96Mi" if index == 41 else rng.choice(("512Mi", "1Gi"))}
          requests:
            memory: {"64Mi" if index == 41 else "256Mi"}
        ports:
        - containerPort: 8080"""
        )
    return "\n---\n".join(documents)


def page(rng: Random) -> str:
    menu = "\n".join(
        f"* [{rng.choice(ADJECTIVES).title()} {rng.choice(THINGS)}](https://city.example/{rng.choice(THINGS)}/{index})"
        for index in range(70)
    )
    related = "\n".join(
        f"* [{rng.choice(PLACES)}: {rng.choice(ADJECTIVES)} {rng.choice(THINGS)} near the {rng.choice(THINGS)}](https://city.example/news/{index})"
        for index in range(40)
    )
    return f"""[Skip to content](#main)

We use cookies to improve your experience. By continuing you agree to our cookie policy. [Accept all](#) [Manage settings](#)

{menu}

# Tram tickets become cheaper, night lines come back

By {rng.choice(FAMILY_NAMES)} · 14 September 2026 · 4 min read

[Share on one network](#) [Share on another](#) [Print](#)

The city council voted on Monday evening for a new tariff. From 1 November 2026 a single ticket costs 2.10 euros instead of 2.80; \
the monthly pass stays at 49 euros.

Children under 14 travel free of charge on weekends. The council expects eight per cent more passengers and a loss of 3.2 million \
euros in the first year, which the parking fund will cover.

## Night lines

Lines N1, N4 and N7 run again from Thursday to Saturday, every 30 minutes until 4 a.m. They were stopped in 2023 because \
drivers were missing. The transport company has hired 46 drivers since then.

"We would have liked to begin in summer," said the head of the company, "but the depots were not ready."

The opposition criticised that the villages in the east get no additional buses. A motion to that end failed with 22 to 27 votes.

## Related stories

{related}

Subscribe to our newsletter! Enter your e-mail address to get the news of the day. [Subscribe](#)

© 2026 City Gazette. All rights reserved. [Imprint](#) [Privacy](#) [Terms of use](#)
"""


def meeting(rng: Random) -> str:
    talk = [
        "Project Lead: Good morning everyone, let us go through the list.",
        "Designer: I have the new drafts of the icons with me.",
        "Engineer: The build was green again this morning.",
        "Marketing: We got forty replies to the survey.",
    ]
    filler = (
        "I think we looked at that last time, but I can check my notes again.",
        "Yes, that sounds fine to me, let us keep it like that for now.",
        "Could you send the file around after the meeting, please?",
        "The colours on the second page are a little bit too bright for my taste.",
        "We should ask the people in support what they hear from the customers.",
        "Um, I am not sure, maybe somebody else remembers how it was.",
        "The remote control needs fewer buttons, that is what the survey says.",
        "Let me write that down so that we do not forget it.",
    )
    people = ("Project Lead", "Designer", "Engineer", "Marketing")
    lines = list(talk)
    for index in range(320):
        if index == 190:
            lines += [
                "Project Lead: Now the launch date. We had said the third of October.",
                (
                    "Engineer: I object to the third of October. The battery tests take until the tenth, and I sign "
                    "nothing untested."
                ),
                "Marketing: The fair begins on the twentieth, so anything before the seventeenth works for us.",
                (
                    "Project Lead: Then we decide: the launch moves to the sixteenth of October, the battery report is "
                    "due on the eleventh."
                ),
                "Designer: Fine with me.",
            ]
        lines.append(
            f"{rng.choice(people)}: {rng.choice(filler)} {rng.choice(filler) if rng.random() < 0.4 else ''}".strip()
        )
    return "\n".join(lines)


def mixed(rng: Random) -> str:
    nodes = _table(
        [
            ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
            *([f"worker-{index}", "Ready", "<none>", f"{rng.randint(20, 300)}d", "v1.34.2"] for index in range(40)),
        ]
    )
    disks = _table(
        [
            ["Filesystem", "Size", "Used", "Avail", "Use%", "Mounted on"],
            *(
                [
                    f"/dev/nvme{index}n1p1",
                    "200G",
                    f"{rng.randint(40, 120)}G",
                    f"{rng.randint(80, 160)}G",
                    f"{rng.randint(20, 60)}%",
                    f"/data/{_two(rng)}",
                ]
                for index in range(30)
            ),
            ["/dev/nvme31n1p1", "50G", "50G", "20K", "100%", "/var/lib/uploads"],
            *([f"tmpfs-{index}", "3.2G", "1M", "3.2G", "1%", f"/run/user/{1000 + index}"] for index in range(20)),
        ]
    )
    journal = "\n".join(
        f"Sep 14 {_clock(36_000 + index * 7)} web-3 {rng.choice(('nginx', 'cron', 'sshd'))}[{rng.randint(300, 9000)}]: "
        + (
            (
                f"upload {hex_digits(rng, 8)} aborted: write /var/lib/uploads/part.{rng.randint(1, 99)}: no space "
                "left on "
                "device"
            )
            if index % 97 == 5
            else rng.choice(
                (
                    f"request {hex_digits(rng, 8)} done in {rng.randint(1, 200)} ms",
                    "session opened for user deploy",
                    f"accepted key from 10.0.{rng.randint(0, 9)}.{rng.randint(1, 200)}",
                )
            )
        )
        for index in range(500)
    )
    status = json.dumps(
        {
            "service": "uploads",
            "replicas": [
                {"name": f"uploads-{index}", "ready": True, "queue": rng.randint(0, 40)} for index in range(60)
            ],
        },
        indent=1,
    )
    return (
        f"$ kubectl get nodes\n{nodes}\n\n$ df -h\n{disks}\n\n$ journalctl -n 500\n{journal}\n\n$ curl -s "
        f"localhost:8080/status\n{status}\n"
    )


def pytest_run(rng: Random) -> str:
    """A run of pytest -v with two failures among 1,400 tests."""
    files = [f"tests/{_two(rng).replace('-', '_')}/test_{rng.choice(THINGS)}.py" for _ in range(56)]
    failed = {
        611: ("tests/orders/test_tax.py", "test_tax_is_rounded_per_line"),
        977: ("tests/orders/test_export.py", "test_export_names_the_currency"),
    }
    lines = [
        "=" * 29 + " test session starts " + "=" * 29,
        "platform linux -- Python 3.12.7, pytest-9.0.1, pluggy-1.6.0 -- /opt/shop/.venv/bin/python",
        "rootdir: /opt/shop",
        "configfile: pyproject.toml",
        "collecting ... collected 1400 items",
        "",
    ]
    for index in range(1_400):
        file, name = failed.get(index, (files[index // 25], f"test_{_two(rng).replace('-', '_')}_{index}"))
        outcome = "FAILED" if index in failed else "PASSED"
        lines.append(f"{file}::{name} {outcome:<60} [{(index + 1) * 100 // 1400:>3}%]")
    return "\n".join(
        [
            *lines,
            "",
            "=" * 35 + " FAILURES " + "=" * 35,
            "_" * 26 + " test_tax_is_rounded_per_line " + "_" * 26,
            "",
            "    def test_tax_is_rounded_per_line() -> None:",
            "        order = Order(lines=[Line(net=Decimal('0.335'), quantity=3)])",
            ">       assert order.tax() == Decimal('0.19')",
            "E       AssertionError: assert Decimal('0.20') == Decimal('0.19')",
            "E        +  where Decimal('0.20') = tax()",
            "",
            "tests/orders/test_tax.py:48: AssertionError",
            "_" * 25 + " test_export_names_the_currency " + "_" * 25,
            "",
            "    def test_export_names_the_currency(tmp_path: Path) -> None:",
            "        write_export(tmp_path / 'orders.csv', orders=[EXAMPLE])",
            ">       header = (tmp_path / 'orders.csv').read_text().splitlines()[0]",
            "",
            "tests/orders/test_export.py:21:",
            "_ " * 40,
            "",
            "    def write_export(path: Path, orders: list[Order]) -> None:",
            "        with path.open('w') as file:",
            "            writer = csv.DictWriter(file, fieldnames=COLUMNS)",
            ">           writer.writerows(order.as_row() for order in orders)",
            "E           ValueError: dict contains fields not in fieldnames: 'currency'",
            "",
            "src/shop/export.py:87: ValueError",
            "=" * 27 + " short test summary info " + "=" * 27,
            "FAILED tests/orders/test_tax.py::test_tax_is_rounded_per_line - AssertionError: assert Decimal('0.20') == "
            "Decimal('0.19')",
            "FAILED tests/orders/test_export.py::test_export_names_the_currency - ValueError: dict contains fields not "
            "in fieldnames: 'currency'",
            "=" * 20 + " 2 failed, 1398 passed in 94.31s (0:01:34) " + "=" * 20,
        ]
    )


def history(rng: Random) -> str:
    """A `git log` of 300 commits, two of which touched the limit of connections."""
    parts = ("cart", "search", "mailer", "invoices", "docs", "ci", "checkout", "styles")
    titles = (
        "rename a helper",
        "add a test for an empty list",
        "follow the new linter",
        "update the dependencies",
        "show the total before tax",
        "describe the settings",
        "remove an unused import",
        "translate the messages",
    )
    commits = []
    for index in range(300):
        title, body = f"{rng.choice(parts)}: {rng.choice(titles)}", f"Part of the work on {_two(rng)}."
        if index == 117:
            title = "database: raise the limit of pooled connections to 40"
            body = "Checkouts waited for a connection in the evening."
        elif index == 42:
            title = "database: return to 20 pooled connections"
            body = "The server allows 100 in all, and four replicas with 40 each are more than that."
        day = f"2026-{9 - index // 40:02d}-{28 - index % 40 * 27 // 40:02d}"
        name = rng.choice(FAMILY_NAMES)
        commits.append(
            f"commit {hex_digits(rng, 40)}\nAuthor: {name} <{name.lower()}@shop.example>\n"
            f"Date:   {day} {_clock(rng.randint(30_000, 66_000))} +0000\n\n    {title}\n\n    {body}\n"
        )
    return "\n".join(commits)


def type_errors(rng: Random) -> str:
    """What mypy prints about a project that has begun to be checked."""
    complaints = (
        ("error", "Function is missing a return type annotation", "no-untyped-def"),
        ("error", "Function is missing a type annotation for one or more arguments", "no-untyped-def"),
        ("error", 'Missing type parameters for generic type "dict"', "type-arg"),
        ("error", 'Call to untyped function "load" in typed context', "no-untyped-call"),
    )
    lines = []
    for _ in range(60):
        file = f"src/shop/{rng.choice(ADJECTIVES)}/{rng.choice(THINGS)}.py"
        for row in sorted(rng.sample(range(4, 600), rng.randint(3, 12))):
            level, message, rule = rng.choice(complaints)
            lines.append(f"{file}:{row}: {level}: {message}  [{rule}]")
    lines.insert(
        271,
        'src/shop/payments/refund.py:112: error: Item "None" of "Payment | None" has no attribute "amount"  [union-attr]',
    )
    lines.insert(
        272,
        'src/shop/payments/refund.py:131: error: Argument 1 to "refund" has incompatible type "float"; expected '
        '"Decimal"  [arg-type]',
    )
    files = len({line.partition(":")[0] for line in lines})
    lines.append(f"Found {len(lines)} errors in {files} files (checked 214 source files)")
    return "\n".join(lines)


EXHIBITS = (
    Exhibit(
        "A list of pods, one of them crashing",
        pods,
        "Is anything unhealthy?",
        250,
        ("invoice-renderer-6c9f7d5b8-x2kqp", "CrashLoopBackOff", "137 (2m ago)"),
    ),
    Exhibit(
        "A JSON dump of buckets",
        buckets,
        "Which bucket is open to the public?",
        400,
        ("customer-exports-2026", "RestrictPublicBuckets: false"),
    ),
    Exhibit(
        "The log of a shop",
        app_log,
        "Why do orders fail?",
        400,
        (
            "taking ACCESS EXCLUSIVE lock on table orders for migration 0042_add_tax_column",
            "could not get a connection from the pool",
        ),
    ),
    Exhibit("Weekly figures as CSV", stores, "Which store had the lowest margin?", 300, ("S009", "3.7")),
    Exhibit(
        "A node, described",
        node,
        "Why are no pods scheduled on this node?",
        500,
        (
            "KubeletHasDiskPressure",
            "node.kubernetes.io/disk-pressure:NoSchedule",
            "Failed to garbage collect required amount of images",
        ),
    ),
    Exhibit(
        "Seventy manifests", manifests, "What memory limit does checkout-worker have?", 300, ("checkout-worker", "96Mi")
    ),
    Exhibit(
        "A crawled page",
        page,
        "When does the new tariff start, and what does a ticket cost?",
        300,
        ("From 1 November 2026 a single ticket costs 2.10 euros",),
    ),
    Exhibit(
        "A meeting",
        meeting,
        "What was decided about the launch date, and who objected?",
        400,
        ("I object to the third of October", "the launch moves to the sixteenth of October"),
    ),
    Exhibit(
        "Four commands in one output",
        mixed,
        "Why do uploads fail?",
        400,
        ("no space left on device", "/var/lib/uploads", "100%"),
    ),
    Exhibit(
        "A test run",
        pytest_run,
        "What failed, and why?",
        400,
        (
            "2 failed, 1398 passed",
            "test_tax_is_rounded_per_line",
            "assert Decimal('0.20') == Decimal('0.19')",
            "test_export_names_the_currency",
            "dict contains fields not in fieldnames: 'currency'",
            "src/shop/export.py:87",
        ),
    ),
    Exhibit(
        "A history of commits",
        history,
        "Which changes touched the pooled connections, and why?",
        400,
        (
            "raise the limit of pooled connections to 40",
            "Checkouts waited for a connection in the evening.",
            "return to 20 pooled connections",
            "four replicas with 40 each are more than that",
        ),
    ),
    Exhibit(
        "Findings of a type checker",
        type_errors,
        "Are any of these real bugs, not only missing annotations?",
        400,
        (
            "src/shop/payments/refund.py",
            'Item "None" of "Payment | None" has no attribute "amount"',
            'Argument 1 to "refund" has incompatible type "float"',
        ),
    ),
)


def _glimpse(text: str, lines: int = 9, width: int = 150) -> str:
    """The beginning of the text as its reader would see it."""
    shown = [line if len(line) <= width else line[:width] + " …" for line in text.split("\n")[:lines]]
    return "\n".join(shown) + f"\n… {text.count(chr(10)) + 1 - lines:,} more lines"


def present(exhibit: Exhibit) -> tuple[str, list[str], list[str]]:
    """Its section of the page, what is missing in the answer, and which of its statements are not so."""
    text = exhibit.make(Random(exhibit.title))
    source = truth.Text(exhibit.title, text, exhibit.focus)
    wrong = [f"{found.kind}: {found.what}" for found in truth.findings_in(source, exhibit.budget)]
    condensed = condense_structurally(text, exhibit.budget, exhibit.focus)
    said = " ".join(condensed.text.split())
    missing = [words for words in exhibit.cause if words not in said]
    lacks = (
        f"\nMissing, and its reader would want it: {', '.join(f'`{words}`' for words in missing)}.\n" if missing else ""
    )
    section = f"""## {exhibit.title}

*{exhibit.focus}* {condensed.tokens_before:,} tokens, condensed to {condensed.tokens_after} of {exhibit.budget}.

Before:

```text
{_glimpse(text)}
```

After:

```text
{condensed.text}
```
{lacks}"""
    return section, missing, wrong


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--print", action="store_true", help="print the page instead of writing it")
    asked = options.parse_args()
    sections = [
        "# Gallery\n\nTwelve texts of different kinds, before and after the structural condenser, which uses no model, "
        "needs no key\nand sends nothing. `python -m bench.gallery` generates this page and checks every count, time, "
        "gap and quoted line on\nit against the source.\n"
    ]
    lacking, untrue = [], []
    for exhibit in EXHIBITS:
        section, missing, wrong = present(exhibit)
        sections.append(section)
        untrue += [f"{exhibit.title}: {statement}" for statement in wrong]
        lacking += [f"{exhibit.title}: {words!r}" for words in missing]
    content = "\n".join(sections)
    if asked.print:
        print(content)
    elif not asked.smoke:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(content, encoding="utf-8")
    if lacking:
        print("Missing in the answers:\n  " + "\n  ".join(lacking), file=sys.stderr)
    if untrue:
        print("Not so:\n  " + "\n  ".join(untrue), file=sys.stderr)
    if untrue or (lacking and not asked.smoke):
        sys.exit(1)


if __name__ == "__main__":
    main()
