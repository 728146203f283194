"""Generated prose: articles, meetings, and pages with everything that surrounds an article.

Each contains one fact to ask for, among sentences about the same people and places
without that fact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bench.generator.vocabulary import ADJECTIVES, FAMILY_NAMES, FIRST_NAMES, PLACES, THINGS, pseudo_word

Needles = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Tongue:
    """Sentences of one language; `{who}`, `{thing}`, `{place}`, `{year}`, `{n}` are filled in."""

    filler: tuple[str, ...]
    fact: str
    question: str
    between: str = " "


TONGUES = {
    "en": Tongue(
        (
            "{who} has lived in {place} since {year} and rarely speaks about the {thing}.",
            "Nobody in {place} expected that the {thing} would last longer than {n} days.",
            "The neighbours of {who} remember the {thing} quite differently.",
            "In {year} the council of {place} voted for a {thing}, with {n} votes against.",
            "It is said that {who} once walked from {place} to the {thing} and back.",
            "Critics call the {thing} of {place} too large, others find it too small.",
            "A report of {n} pages describes how {who} came to {place}.",
            "The weather in {place} was mild, and the {thing} stayed open until late.",
            "{who} declined to comment, but sent a picture of the {thing}.",
            "Since {year} the {thing} has belonged to a foundation in {place}.",
            "Visitors who came for {who} often stayed for the {thing}.",
            "There were {n} chairs in the hall, and most of them were empty.",
        ),
        "{who} will open the {thing} in {place} on the {n}th of May, and entry costs {price} euros.",
        "When does {who} open the {thing} in {place}, and what does entry cost?",
    ),
    "de": Tongue(
        (
            "{who} wohnt seit {year} in {place} und spricht selten über {thing}.",
            "In {place} hatte niemand erwartet, dass {thing} länger als {n} Tage hält.",
            "Die Nachbarn von {who} erinnern sich anders an {thing}.",
            "Im Jahr {year} stimmte der Rat von {place} für {thing}, mit {n} Gegenstimmen.",
            "Kritiker nennen {thing} in {place} zu groß, andere zu klein.",
            "Ein Bericht von {n} Seiten beschreibt, wie {who} nach {place} kam.",
            "Das Wetter in {place} war mild, und {thing} blieb lange geöffnet.",
            "{who} wollte sich nicht äußern, schickte aber ein Bild von {thing}.",
        ),
        "{who} eröffnet {thing} in {place} am {n}. Mai, der Eintritt kostet {price} Euro.",
        "Wann eröffnet {who} {thing} in {place}, und was kostet der Eintritt?",
    ),
    "fr": Tongue(
        (
            "{who} habite à {place} depuis {year} et parle rarement de {thing}.",
            "Personne à {place} ne pensait que {thing} durerait plus de {n} jours.",
            "Les voisins de {who} se souviennent autrement de {thing}.",
            "En {year}, le conseil de {place} a voté pour {thing}, avec {n} voix contre.",
            "Un rapport de {n} pages décrit comment {who} est venu à {place}.",
            "Le temps à {place} était doux, et {thing} est resté ouvert tard.",
        ),
        "{who} ouvrira {thing} à {place} le {n} mai, et l'entrée coûte {price} euros.",
        "Quand {who} ouvre-t-il {thing} à {place}, et combien coûte l'entrée ?",
    ),
    "zh": Tongue(
        (
            "{who}自{year}年起住在{place}，很少谈到{thing}。",
            "{place}没有人想到{thing}会持续超过{n}天。",
            "{who}的邻居对{thing}的记忆完全不同。",
            "{year}年，{place}议会以{n}票反对通过了{thing}。",
            "一份{n}页的报告描述了{who}如何来到{place}。",
            "{place}天气温和，{thing}一直开放到很晚。",
        ),
        "{who}将于5月{n}日在{place}开放{thing}，门票为{price}欧元。",
        "{who}什么时候在{place}开放{thing}？门票多少钱？",
        between="",
    ),
}


class Author:
    def __init__(self, rng: Random, tongue: str) -> None:
        self.rng = rng
        self.tongue = TONGUES[tongue]
        self.people = [f"{rng.choice(FIRST_NAMES)} {rng.choice(FAMILY_NAMES)}" for _ in range(8)]
        self.things = [f"{rng.choice(ADJECTIVES)} {rng.choice(THINGS)}" for _ in range(10)]
        self.places = rng.sample(PLACES, k=8)
        self.hero, self.treasure, self.town = self.people[0], self.things[0], self.places[0]

    def sentence(self) -> str:
        rng = self.rng
        return rng.choice(self.tongue.filler).format(
            who=rng.choice(self.people),
            thing=rng.choice(self.things),
            place=rng.choice(self.places),
            year=rng.randint(1850, 2025),
            n=rng.randint(3, 90),
        )

    def paragraph(self) -> str:
        return self.tongue.between.join(self.sentence() for _ in range(self.rng.randint(2, 6)))

    def fact(self) -> tuple[str, str]:
        """The sentence, and the question it answers."""
        known = {
            "who": self.hero,
            "thing": self.treasure,
            "place": self.town,
            "n": self.rng.randint(4, 28),
            "price": f"{self.rng.randint(11, 99)}.{self.rng.randint(10, 99)}",
        }
        return self.tongue.fact.format(**known), self.tongue.question.format(**known)

    def body(self, size: int) -> tuple[list[str], str, str]:
        """Paragraphs with the fact in one of the middle ones."""
        paragraphs: list[str] = []
        have = 0
        while have < size:
            paragraphs.append(self.paragraph())
            have += len(paragraphs[-1]) + 2
        fact, question = self.fact()
        at = self.rng.randint(len(paragraphs) // 6, len(paragraphs) * 5 // 6)
        paragraphs[at] = self.tongue.between.join([self.sentence(), fact, self.sentence()])
        return paragraphs, fact, question


Writer = Callable[[Random, int], tuple[str, str, Needles]]


@dataclass(frozen=True)
class PageShape:
    name: str
    write: Writer
    held_out: bool = False
    asks: tuple[str, ...] = ("fact",)


PAGE_SHAPES: dict[str, PageShape] = {}


def page_shape(name: str, *, held_out: bool = False) -> Callable[[Writer], Writer]:
    def keep(write: Writer) -> Writer:
        PAGE_SHAPES[name] = PageShape(name, write, held_out)
        return write

    return keep


@page_shape("article")
def article(rng: Random, size: int) -> tuple[str, str, Needles]:
    paragraphs, fact, question = Author(rng, rng.choice(("en", "de"))).body(size)
    for at in range(0, len(paragraphs), 9):
        paragraphs[at] = f"## {rng.choice(ADJECTIVES).title()} {rng.choice(THINGS)}\n\n{paragraphs[at]}"
    return "\n\n".join(paragraphs), question, ((fact,),)


@page_shape("article, other languages", held_out=True)
def foreign_article(rng: Random, size: int) -> tuple[str, str, Needles]:
    paragraphs, fact, question = Author(rng, rng.choice(("fr", "zh"))).body(size)
    return "\n\n".join(paragraphs), question, ((fact,),)


@page_shape("article in lines of 80 characters", held_out=True)
def wrapped(rng: Random, size: int) -> tuple[str, str, Needles]:
    paragraphs, fact, question = Author(rng, "en").body(size)
    lines = []
    for paragraph in paragraphs:
        line = ""
        for word in paragraph.split():
            if len(line) + len(word) > 78:
                lines.append(line)
                line = ""
            line = f"{line} {word}".strip()
        lines += [line, ""]
    return "\n".join(lines), question, ((fact,),)


@page_shape("meeting")
def meeting(rng: Random, size: int) -> tuple[str, str, Needles]:
    author = Author(rng, "en")
    paragraphs, fact, question = author.body(size)
    speakers = rng.sample(("Chair", "Clerk", "Engineer", "Designer", "Treasurer", "Guest"), k=4)
    small_talk = ("Okay.", "Um, yes.", "Right, right.", "Could you say that again?", "I agree.", "Let us move on.")
    lines = []
    for paragraph in paragraphs:
        lines.append(f"{rng.choice(speakers)}: {paragraph}")
        while rng.random() < 0.5:
            lines.append(f"{rng.choice(speakers)}: {rng.choice(small_talk)}")
    return "\n".join(lines), question, ((fact,),)


def _links(rng: Random, count: int, mark: str) -> list[str]:
    return [
        mark.format(
            text=f"{rng.choice(ADJECTIVES).title()} {rng.choice(THINGS)} {rng.choice(PLACES)}", at=pseudo_word(rng)
        )
        for _ in range(count)
    ]


@page_shape("page, markdown")
def markdown_page(rng: Random, size: int) -> tuple[str, str, Needles]:
    size = min(size, 40_000)
    author = Author(rng, rng.choice(("en", "en", "de")))
    paragraphs, fact, question = author.body(size // 2)
    around = max(20, size // 4 // 60)
    link = "* [{text}](https://example.org/{at})"
    return (
        "\n".join(_links(rng, around, link))
        + "\n\nWe use cookies. [Accept](#) [Reject](#)\n\n# "
        + f"{author.treasure.title()} of {author.town}\n\nBy {author.people[1]}\n\n[Share](#) [Print](#)\n\n"
        + "\n\n".join(paragraphs)
        + "\n\n## Related\n\n"
        + "\n".join(_links(rng, around, link))
        + "\n\nSubscribe to our newsletter\n\n© 2026 All rights reserved. [Imprint](#) [Privacy](#)\n",
        question,
        ((fact,),),
    )


@page_shape("page, html")
def html_page(rng: Random, size: int) -> tuple[str, str, Needles]:
    size = min(size, 60_000)
    author = Author(rng, rng.choice(("en", "en", "de")))
    paragraphs, fact, question = author.body(size // 2)
    around = max(20, size // 4 // 80)
    link = '<li class="nav-item"><a href="https://example.org/{at}">{text}</a></li>'
    return (
        f"<!DOCTYPE html>\n<html><head><title>{author.treasure.title()}</title><script>var "
        f"t={{a:1}};window.track(t);</script>"
        "<style>.nav-item{margin:0}</style></head>\n<body>\n<nav><ul>"
        + "\n".join(_links(rng, around, link))
        + '</ul></nav>\n<div class="cookie-banner">We use cookies. <button>Accept</button></div>\n<main><article>'
        + f"<h1>{author.treasure.title()} of {author.town}</h1>\n"
        + "\n".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        + '</article></main>\n<aside class="related"><ul>'
        + "\n".join(_links(rng, around, link))
        + "</ul></aside>\n<footer>© 2026 All rights reserved</footer>\n</body></html>",
        question,
        ((fact,),),
    )
