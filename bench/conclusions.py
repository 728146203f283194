"""Plant answers about all records, and count how often the condensed text states the conclusion exactly.

    python -m bench.conclusions                  every form and question, three seeds, at 500, 1,000 and 2,000 tokens
    python -m bench.conclusions --seeds 10
    python -m bench.conclusions --show yaml      the condensed texts of a form that do not state the conclusion
    python -m bench.conclusions --smoke          two forms

The questions are "how many" (of a state, in a field of many values, of a number), "are there others", "is it the only
one", and ones whose answer is "none"; records have up to 23 fields. A mechanical
reader of the condensed text decides: it parses the counts that the text states of the field and compares them with the
records. "None" needs counts that cover all records; "the only one" also needs the name of the record. Texts of the
held-out forms must not be looked at when something is tuned: they are counted in one total and never shown.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from xml.sax.saxutils import escape

from bench.arguments import parser
from bench.generate import figure, without_one
from bench.generator.vocabulary import pseudo_word
from tersely.condensing.structural import condense_structurally

BUDGETS = (500, 1000, 2000)
HELD_OUT = frozenset(("markdown table", "ini sections", "property lines", "tsv"))

Record = dict[str, str]


@dataclass(frozen=True)
class Planted:
    """A question about all records, and what must be stated to answer it."""

    ask: str
    question: str
    field: str
    value: str
    """Empty if the answer is that there are none."""
    count: int
    name: str = ""
    """The record that must be shown."""


def records(draw: Random) -> tuple[str, list[Record], list[Planted]]:
    """Return what the records are called, the records, and questions about them."""
    words = list(dict.fromkeys(pseudo_word(draw) for _ in range(140)))
    noun = draw.choice(("hosts", "jobs", "orders", "volumes", "builds"))
    state, place, kind = draw.choice(("state", "phase", "result")), draw.choice(("zone", "region", "site")), "tier"
    usual, rare, single, never = words[:4]
    many = draw.randrange(120, 260)
    labels = words[90 : 90 + draw.choice((0, 6, 14))]
    made = [
        {
            "name": f"{draw.choice(words[4:12])}-{draw.randrange(16**6):06x}",
            state: usual,
            place: draw.choice(words[12:15]),
            kind: draw.choice(words[15 : 15 + draw.randrange(2, 14)]),
            "size": str(draw.randrange(10, 900)),
            "owner": draw.choice(words[30:70]),
            "retries": str(draw.randrange(7)),
            "encrypted": "true",
            **{label: draw.choice(words[80:83]) for label in labels},
            "checksum": f"{draw.randrange(16**16):016x}",
        }
        for _ in range(many)
    ]
    some = draw.sample(range(many), draw.randrange(4, 10))
    for at in some[1:]:
        made[at][state] = rare
    made[some[0]][place] = single
    plain, *bare = draw.sample(range(many), 4)
    made[plain]["encrypted"] = "false"
    for at in bare:
        made[at]["owner"] = "-"
    owner, retries = draw.choice([record["owner"] for record in made if record["owner"] != "-"]), draw.choice("246")
    others = made[some[1]]["name"]
    tier = draw.choice(made)[kind]
    tiers = sum(record[kind] == tier for record in made)
    return (
        noun,
        made,
        [
            Planted("how many", f"How many {noun} have the {state} {rare}?", state, rare, len(some) - 1),
            Planted("how many", f"How many {noun} are {rare}?", state, rare, len(some) - 1),
            Planted("how many", f"How many of the {noun} are in {kind} {tier}?", kind, tier, tiers),
            Planted(
                "others", f"Are there other {rare} {noun} besides {others}?", state, rare, len(some) - 1, name=others
            ),
            Planted(
                "only one",
                f"Is {made[some[0]]['name']} the only one in the {place} {single}?",
                place,
                single,
                1,
                name=made[some[0]]["name"],
            ),
            Planted(
                "many values",
                f"How many {noun} belong to the owner {owner}?",
                "owner",
                owner,
                sum(record["owner"] == owner for record in made),
            ),
            Planted(
                "many values",
                f"How many {noun} does {owner} have?",
                "owner",
                owner,
                sum(record["owner"] == owner for record in made),
            ),
            Planted("many values", f"How many {noun} have no owner?", "owner", "-", 3),
            Planted(
                "numbers",
                f"How many {noun} had {retries} retries?",
                "retries",
                retries,
                sum(record["retries"] == retries for record in made),
            ),
            Planted(
                "only one",
                f"Is {made[plain]['name']} the only one that is not encrypted?",
                "encrypted",
                "false",
                1,
                name=made[plain]["name"],
            ),
            Planted("none", f"Are there {noun} with the {state} {never}?", state, "", 0),
            Planted("none", f"Which {noun} are {never}?", state, "", 0),
        ],
    )


def _aligned(made: list[Record]) -> str:
    widths = {key: max(len(key), *(len(record[key]) for record in made)) + 3 for key in made[0]}
    rows = ["".join(f"{key.upper():<{width}}" for key, width in widths.items())]
    rows += ["".join(f"{record[key]:<{width}}" for key, width in widths.items()) for record in made]
    return "\n".join(map(str.rstrip, rows))


def _separated(made: list[Record], sign: str) -> str:
    return "\n".join([sign.join(made[0]), *(sign.join(record.values()) for record in made)])


def _markdown(made: list[Record]) -> str:
    rows = [list(made[0]), ["---"] * len(made[0]), *(list(record.values()) for record in made)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _log(made: list[Record]) -> str:
    return "\n".join(
        f"2026-03-04T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z INFO checked "
        + " ".join(f"{key}={value}" for key, value in record.items())
        for at, record in enumerate(made)
    )


def _described(made: list[Record]) -> str:
    """In the manner of `kubectl describe`."""
    blocks = ("\n".join(f"{key.capitalize() + ':':<14}{value}" for key, value in record.items()) for record in made)
    return "\n\n".join(blocks)


def _nested(record: Record) -> dict[str, object]:
    name, *others = record.items()
    return {"metadata": dict([name, others[-1]]), "spec": dict(others[1:-1]), "status": dict(others[:1])}


def _yaml(made: list[Record]) -> str:
    lines = ["items:"]
    for record in made:
        begin = "- "
        for group, fields in _nested(record).items():
            lines.append(f"{begin}{group}:")
            lines += [f"    {key}: {value}" for key, value in dict(fields).items()]  # type: ignore[call-overload]
            begin = "  "
    return "\n".join(lines)


def _xml(made: list[Record]) -> str:
    lines = ["<list>"]
    for record in made:
        lines += ["  <item>", *(f"    <{key}>{escape(value)}</{key}>" for key, value in record.items()), "  </item>"]
    return "\n".join([*lines, "</list>"])


def _sections(made: list[Record]) -> str:
    return "\n".join(
        "\n".join([f"[{record['name']}]", *(f"{key} = {value}" for key, value in list(record.items())[1:]), ""])
        for record in made
    )


def _properties(made: list[Record]) -> str:
    return "\n".join(f"{record['name']}.{key}: {value}" for record in made for key, value in list(record.items())[1:])


FORMS: dict[str, Callable[[list[Record]], str]] = {
    "json": lambda made: json.dumps(made, indent=2),
    "nested json": lambda made: json.dumps({"items": [_nested(record) for record in made]}),
    "json lines": lambda made: "\n".join(map(json.dumps, made)),
    "yaml": _yaml,
    "csv": lambda made: _separated(made, ","),
    "table": _aligned,
    "log": _log,
    "described": _described,
    "xml": _xml,
    "markdown table": _markdown,
    "ini sections": _sections,
    "property lines": _properties,
    "tsv": lambda made: _separated(made, "\t"),
}

_VALUE = re.compile(r"(?P<value>[^\s,;\[\]×]+(?: other values)?) ×(?P<count>\d[\d,]*)(?:, |(?=[\];]|$))")


def stated(shown: str, field: str) -> Iterator[Counter[str]]:
    """Yield the counts of a field's values that the text states, wherever it does."""
    for label in re.finditer(rf"(?im)(?<![\w-]){re.escape(field)}: ", shown):
        counts: Counter[str] = Counter()
        at = label.end()
        while (found := _VALUE.match(shown, at)) is not None:
            counts[found["value"]] += int(found["count"].replace(",", ""))
            at = found.end()
        if counts:
            yield counts
    for found in re.finditer(rf"(?im)(\d+) with {re.escape(field)}=([^\s;,\]]+)", shown):
        yield Counter({found[2]: int(found[1])})
    for found in re.finditer(rf"(?im)^\[all (\d+) [^:\]]*: (?:[^\]]*[ .])?{re.escape(field)}: ([^\s,\]]+)", shown):
        yield Counter({found[2]: int(found[1])})
    for found in re.finditer(rf"(?im)^\[?(\d+) \w+; (?:[^\]]*; )?all: [^;\]]*\b{re.escape(field)}=([^\s;,\]]+)", shown):
        yield Counter({found[2]: int(found[1])})


def concludes(shown: str, planted: Planted, many: int) -> bool:
    """Whether the text states what answers the question."""
    if planted.name and planted.name not in shown:
        return False
    found = list(stated(shown, planted.field))
    if planted.value:
        return any(counts[planted.value] == planted.count for counts in found)
    return any(sum(counts.values()) == many and not any("other" in value for value in counts) for counts in found)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--show", default="", metavar="FORM", help="the texts of a form that lack the conclusion")
    asked = options.parse_args()
    forms = ["json", "csv"] if asked.smoke else list(FORMS)
    rates: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for seed in range(1 if asked.smoke else asked.seeds):
        _, made, questions = records(Random(seed))
        for form in forms:
            text = FORMS[form](made)
            for planted in questions:
                for budget in BUDGETS:
                    shown = condense_structurally(text, budget, planted.question).text
                    answered = concludes(shown, planted, len(made))
                    rates[form, planted.ask, budget].append(answered)
                    if not answered and form == asked.show and form not in HELD_OUT:
                        print(f"--- {form}, seed {seed}, @{budget}: {planted}\n{shown}")
    _print(rates, [form for form in forms if form not in HELD_OUT], [form for form in forms if form in HELD_OUT])


def _print(rates: dict[tuple[str, str, int], list[float]], open_: list[str], held_out: list[str]) -> None:
    asks = list(dict.fromkeys(ask for _, ask, _ in rates))

    def means(forms: list[str], wanted: list[str]) -> str:
        found = [[rate for form in forms for ask in wanted for rate in rates[form, ask, budget]] for budget in BUDGETS]
        return "/".join(figure(sum(each) / len(each)) if each else "–" for each in found)

    print(f"Conclusions that are stated exactly, @{'/'.join(map(str, BUDGETS))}")
    print(f"{'':<16}" + "".join(f"{ask:<15}" for ask in asks) + "all")
    for form in open_:
        print(f"{form:<16}" + "".join(f"{means([form], [ask]):<15}" for ask in asks) + means([form], asks))
    for name, forms in (("total", open_), ("held-out forms", held_out)):
        if forms:
            print(f"{name:<16}" + "".join(f"{means(forms, [ask]):<15}" for ask in asks) + means(forms, asks))
    by_form = {
        form: [rate for ask in asks for budget in BUDGETS for rate in rates[form, ask, budget]] for form in open_
    }
    print(f"without one form: {without_one(by_form)}")


if __name__ == "__main__":
    main()
