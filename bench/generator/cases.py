"""One case: a text, a question, and the needles that the output must contain.

Scoring: a literal must be in the output exactly, except for white space; a name and a
value must be at most `GAP` characters apart, in either order, neither inside a longer
word. An echoed question scores nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from zlib import crc32

from bench.generator import envelopes, held_out, held_out_later
from bench.generator.logs import LOG_SHAPES, draw_story
from bench.generator.pages import PAGE_SHAPES
from bench.generator.records import Blueprint, Collection, Field, Value, as_number, blueprint, number_text
from bench.generator.shapes import ALL_ASKS, SHAPES, Shape

assert held_out and held_out_later and envelopes  # Importing them is what registers their shapes.

GAP = 160
SMALLEST, LARGEST = 16_000, 300_000
"""Characters: about 5,000 to 100,000 tokens."""


@dataclass(frozen=True)
class Case:
    id: str
    shape: str
    ask: str
    held_out: bool
    text: str
    focus: str
    needles: tuple[tuple[str, ...], ...]

    def score(self, output: str) -> float:
        """The share of the needles that the output contains."""
        seen = _normal(output)
        echo = _normal(self.focus)
        # A question that is nothing but a name stands in every right answer; that is no echo.
        if echo and not any(echo in part for needle in self.needles for part in needle):
            seen = seen.replace(echo, " ")
        return sum(holds(seen, needle) for needle in self.needles) / len(self.needles)


def _normal(text: str) -> str:
    return " ".join(text.split())


def _unescaped(text: str) -> str:
    """The text of a JSON string, roughly unescaped."""
    return text.replace("\\n", " ").replace("\\t", " ").replace("\\", "")


def _word(value: str) -> str:
    before = r"(?<!\w)" if value[:1].isalnum() else ""
    after = r"(?!\w)" if value[-1:].isalnum() else ""
    return before + re.escape(value) + after


def holds(seen: str, needle: tuple[str, ...], gap: int = GAP) -> bool:
    """Whether white-space-normalised text contains a literal, or a name and a value near each other."""
    if len(needle) == 1:
        return _normal(needle[0]) in seen
    name, value = (_normal(part) for part in needle)
    names = [found.span() for found in re.finditer(_word(name), seen)]
    if not names:
        return False
    values = [found.span() for found in re.finditer(_word(value), seen)]
    return any(
        name_end <= start <= name_end + gap or end <= name_start <= end + gap
        for name_start, name_end in names
        for start, end in values
    )


def all_shapes(*, held_out: bool | None = None) -> list[tuple[str, str]]:
    """Every shape with every ask it can answer."""
    found = [
        (shape.name, ask)
        for shapes in (SHAPES, LOG_SHAPES, PAGE_SHAPES)
        for shape in shapes.values()
        for ask in shape.asks
        if held_out in (None, shape.held_out)
    ]
    return found + (
        [("several outputs", ask) for ask in ("lookup", "oddity", "extreme", "trouble")] if held_out is not True else []
    )


def draw(shape: str, ask: str, seed: int, size: int = 0) -> Case:
    """The case of a shape, ask and seed, always the same one. `size` is an approximate number of characters."""
    rng = Random(crc32(f"{shape}/{ask}/{seed}".encode()))
    drawn = int(SMALLEST * (LARGEST / SMALLEST) ** (rng.random() ** 1.7))
    size = size or drawn
    if shape == "several outputs":
        return _several(rng, ask, size, seed)
    if shape in PAGE_SHAPES:
        text, focus, needles = PAGE_SHAPES[shape].write(rng, size)
        return Case(_id(shape, ask, seed), shape, ask, PAGE_SHAPES[shape].held_out, text, focus, needles)
    if shape in LOG_SHAPES:
        text, focus, needles = _log(rng, shape, ask, size)
        return Case(_id(shape, ask, seed), shape, ask, LOG_SHAPES[shape].held_out, text, focus, needles)
    for _ in range(20):
        text, focus, needles = _listing(rng, SHAPES[shape], ask, size)
        if all(holds(_normal(_unescaped(text)), needle, len(text)) for needle in needles):
            return Case(_id(shape, ask, seed), shape, ask, SHAPES[shape].held_out, text, focus, needles)
    raise AssertionError(f"No {ask} case of shape {shape!r} holds its own needle (seed {seed}).")


def _id(shape: str, ask: str, seed: int) -> str:
    return f"{shape.replace(',', '').replace(' ', '-')}/{ask}/{seed}"


def find(case_id: str) -> Case:
    slug, ask, seed = case_id.rsplit("/", 2)
    for shape, known in all_shapes():
        if known == ask and _id(shape, ask, 0).startswith(slug + "/"):
            return draw(shape, ask, int(seed))
    raise SystemExit(f"No case {case_id!r}; a case is shape/ask/seed, e.g. json-list-indented/lookup/3.")


def cases(seeds: range, *, held_out: bool | None = None, shapes: str = "", asks: str = "") -> Iterator[Case]:
    for shape, ask in all_shapes(held_out=held_out):
        if shapes in shape and asks in ask:
            for seed in seeds:
                yield draw(shape, ask, seed)


# --- Logs


def _log(rng: Random, name: str, ask: str, size: int) -> tuple[str, str, tuple[tuple[str, ...], ...]]:
    write = LOG_SHAPES[name].write
    state = rng.getstate()
    sample = write(rng, draw_story(rng, ask, 200, with_stacks="stack" in name).events)
    rng.setstate(state)
    story = draw_story(rng, ask, max(150, size * 200 // len(sample)), with_stacks="stack" in name)
    return write(rng, story.events), story.focus, tuple(story.needles)


# --- Records


def _listing(rng: Random, shape: Shape, ask: str, size: int) -> tuple[str, str, tuple[tuple[str, ...], ...]]:
    plan = blueprint(rng, width=rng.randint(*shape.width), style=rng.choice(shape.styles) if shape.styles else "")
    sample = len(shape.write(Random(1), plan.make(Random(1), 40)))
    collection = plan.make(rng, min(6_000, max(60, size * 40 // sample)))
    focus, needles = plant(rng, plan, collection, ask, plain_figures=shape.plain_figures, few="matrix" in shape.name)
    return shape.write(rng, collection), focus, needles


def _asked(rng: Random, collection: Collection, column: Field) -> str:
    """The field as a question names it: in words, or as it is spelled."""
    return rng.choice((column.words, f"{column.group} {column.words}".strip(), collection.label(column)))


def _shown(value: Value, plain_figures: bool) -> str:
    if not plain_figures or isinstance(value, int):
        return str(value)
    figure = as_number(value)
    return str(int(figure)) if isinstance(value, str) and figure == int(figure) else str(figure)


def plant(
    rng: Random, plan: Blueprint, collection: Collection, ask: str, *, plain_figures: bool = False, few: bool = False
) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Change the data as the ask requires; return the question and its needles."""
    rows = collection.rows
    reach = max(12, len(rows) // 12) if few else len(rows)
    row = rows[rng.randint(reach * 3 // 20, reach * 17 // 20)]
    noun, name = collection.noun, collection.name(row)
    numbers = [column for column in collection.fields if column.kind == "number"]

    if ask == "lookup":
        column = rng.choice(numbers if plain_figures else collection.known(row))
        field = _asked(rng, collection, column)
        focus = rng.choice(
            (
                "What is the {f} of {n}?",
                "{n} {f}",
                "Give me {f} for {noun} {n}",
                "I am looking for {n}. Which {f} does it have?",
                "{f} of {n}",
                "Please check {noun} {n}: is its {f} what we expect?",
                "Welchen Wert hat {f} bei {n}?",
            )
        ).format(f=field, n=name, noun=noun)
        return focus, ((name, _shown(row[column], plain_figures)),)

    if ask == "oddity":
        column, odd = _odd_value(rng, plan, row)
        row[column] = odd
        field = _asked(rng, collection, column)
        focus = rng.choice(
            (
                "Is anything unusual here?",
                "What stands out?",
                f"Which {noun} differs from the others?",
                f"Is there a {noun} with a strange {field}?",
                "Give me an overview; what should I look at first?",
                f"Which {noun} has a different {field} than the rest?",
            )
        )
        return focus, ((name, str(odd)),)

    if ask == "extreme":
        column = numbers[0] if few else rng.choice(numbers)
        highest = few or rng.random() < 0.6
        known = sorted(as_number(other[column]) for other in rows)
        spread = known[-1] - known[0] or 1.0
        number = plan.numbers[column]
        step = spread * rng.uniform(0.02, 0.5) + 1
        row[column] = number_text(rng, number, known[-1] + step if highest else known[0] - step)
        words = ("highest", "largest", "maximum", "biggest") if highest else ("lowest", "smallest", "minimum")
        field = _asked(rng, collection, column)
        focus = rng.choice(
            (
                "Which {noun} has the {w} {f}?",
                "{w} {f}",
                "What is the {w} {f} and which {noun} has it?",
                "Show the {noun} with the {w} {f}",
            )
        ).format(noun=noun, w=rng.choice(words), f=field)
        return focus, ((name, _shown(row[column], plain_figures)),)

    # filter: the few that are not as the rest, or over a threshold
    chosen = [
        rows[index]
        for index in sorted(rng.sample(range(len(rows) * 3 // 20, len(rows) * 17 // 20), k=rng.randint(2, 4)))
    ]
    if rng.random() < 0.5:
        column = rng.choice(list(plan.states))
        state, _ = plan.states[column]
        for other in rows:
            other[column] = state.usual[0]
        for index, other in enumerate(chosen):
            pool = [*state.usual[1:], *state.bad, *state.odd]
            other[column] = pool[index % len(pool)]
        field = _asked(rng, collection, column)
        focus = rng.choice(
            ("Which {p} are not {v}?", "{p} whose {f} is not {v}", "all {p} with a {f} other than {v}")
        ).format(p=collection.plural, v=state.usual[0], f=field)
        return focus, tuple((collection.name(other), str(other[column])) for other in chosen)
    column = rng.choice(numbers)
    number = plan.numbers[column]
    limit = round(number.high * 1.2 + 2)
    for index, other in enumerate(chosen):
        other[column] = number_text(rng, number, limit + (index + 1) * max(1, limit // 7))
    field = _asked(rng, collection, column)
    focus = rng.choice(("Which {p} have a {f} over {v}?", "{p} with {f} > {v}", "{f} above {v}")).format(
        p=collection.plural, f=field, v=f"{limit}{number.unit}"
    )
    return focus, tuple((collection.name(other), str(other[column])) for other in chosen)


def _odd_value(rng: Random, plan: Blueprint, row: dict[Field, Value]) -> tuple[Field, Value]:
    column = rng.choice(list(plan.states))
    state, _ = plan.states[column]
    if rng.random() < 0.25:
        figure = rng.choice(list(plan.numbers))
        number = plan.numbers[figure]
        return figure, number_text(rng, number, number.high * rng.choice((40, 300)) + 7)
    pool = [*state.bad, *state.odd]
    return column, rng.choice(pool)


# --- Several outputs in one text


def _several(rng: Random, ask: str, size: int, seed: int) -> Case:
    """Three to five outputs of different commands; one of them is asked about."""
    plain = [
        name
        for name, shape in SHAPES.items()
        if not shape.held_out and shape.asks == ALL_ASKS and "cut" not in name and "inside" not in name
    ]
    names = rng.sample(plain, k=rng.randint(2, 4))
    share = max(6_000, size // (len(names) + 1))
    parts = []
    focus = ""
    needles: tuple[tuple[str, ...], ...] = ()
    for index, name in enumerate(names):
        text, asked, wanted = _listing(rng, SHAPES[name], "lookup" if ask == "trouble" or index else ask, share)
        if index == 0:
            focus, needles = asked, wanted
        parts.append((f"list-{name.split()[0]} --all", text))
    text, asked, wanted = _log(
        rng, rng.choice(["app log", "system log", "json log lines", "letter and number log"]), "trouble", share
    )
    if ask == "trouble":
        focus, needles = asked, wanted
    parts.append(("tail service.log", text))
    rng.shuffle(parts)
    mark = rng.choice(("$ {}\n{}", "=== {} ===\n{}", "### {}\n\n{}", "--- {}\n{}"))
    text = "\n\n".join(mark.format(command, body) for command, body in parts)
    return Case(_id("several outputs", ask, seed), "several outputs", ask, False, text, focus, needles)
