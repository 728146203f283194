"""Fifteen pages about an invented country, as a crawler finds them: an article and the boilerplate around it.

Five sites with their own menus, banners, adverts, link lists, forms and footers.
Benchmarks and tests read here which claims a page states and which of its lines are
boilerplate; the server returns text only.
"""

import html
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from tersely.text.tokens import O200K
from tests.fakes.web.filler import Filler
from tests.fakes.web.lore import KINDS, PHRASINGS, Country, Kind, LoreFact, draw_country

PAGES = 15
ARTICLE_TOKENS = 9_000
REPEATED = 0.3
"""How many of the claims are made on a second page as well."""

BlockKind = Literal["heading", "text", "item", "row", "boilerplate"]

_SITES = (
    ("chronicle", "The {name} Chronicle", "annals"),
    ("wiki", "{name} Wiki", "wiki"),
    ("wayfarer", "Wayfarer's {name}", "guide"),
    ("archive", "{name} Open Archive", "essays"),
    ("forum", "Friends of {name}", "notes"),
)
_TITLES: dict[Kind, tuple[str, str, str]] = {
    "name": (
        "People of {name} and what they are called",
        "Bynames and titles in {name}",
        "Who is who in {name}: characters and their names",
    ),
    "allegiance": (
        "Factions of {name} and who serves them",
        "Oaths and allegiances in {name}",
        "Sworn members: loyalty in {name}",
    ),
    "date": (
        "A timeline of {name}: dates to remember",
        "The calendar of {name}: when it happened",
        "Chronology of {name}, year by year",
    ),
    "event": (
        "Battles, sieges and treaties of {name}",
        "The great events of {name} and who led them",
        "Events that shaped {name}",
    ),
    "item": (
        "Relics and treasures of {name}",
        "Artefacts of {name} and their keepers",
        "Famous items of {name}: where they are now",
    ),
}
_SECTIONS = (
    "Background", "The early accounts", "What visitors notice", "A closer look", "Voices and opinions",
    "Around the harbour",
    "Later years", "On the road", "Trivia", "Customs", "In songs and plays", "The present day", "Reception",
    "Landscape and light",
    "A walk through town", "Further remarks",
)  # fmt: skip
_MENU = (
    "Home", "News", "Guides", "Maps", "Gallery", "Events", "Community", "Forums", "Shop", "Podcast", "Videos",
    "Newsletter", "About us",
    "Contact", "Help centre", "Careers", "Press", "Advertise with us", "Log in", "Create account", "My reading list",
    "Random page",
    "Recent changes", "Top contributors", "Site rules", "Style guide", "Donate", "Mobile app", "Privacy policy",
    "Terms of use",
)  # fmt: skip
_BANNERS = (
    "We value your privacy. We and our 842 partners use cookies to store and access information on your device.",
    (
        "By clicking “Accept all” you agree to the use of cookies for analytics, personalised ads and social media "
        "features."
    ),
    "You are reading 1 of 3 free articles this month. Subscribe now for unlimited access from 1.99 per week.",
    "Disable your ad blocker to support independent writing. It only takes a moment!",
    "Install our app for a better reading experience. Rated 4.8 by 12,400 readers.",
)
_ADVERTS = (
    "Sponsored: Ten kitchen tricks that chefs do not want you to know. Read more »",
    "ADVERTISEMENT: Save 35 % on walking boots this weekend only. Shop now",
    "Promoted: Why everyone is switching to this mattress. Learn more",
    "Ad · Compare 27 travel insurances in two minutes. Get your quote today",
    "Partner offer: Learn a language in 15 minutes a day. Start your free trial",
    "Sponsored content: The 12 most relaxing cruises of the year. See the list",
)
_RELATED = (
    "25 photographs of doors you will not believe", "How to pack for three seasons",
    "The best breakfast within a day's ride",
    "Ranking every bridge from worst to best", "What your favourite mule says about you",
    "Five inns with a view, and one without",
    "This is why the bells are late", "A beginner's guide to bargaining", "Readers' letters of the month",
    "Quiz: which gate are you?",
    "The recipe everybody asked for", "Interview: a life among maps", "Nine walks for a rainy afternoon",
    "Opinion: leave the pigeons alone",
)  # fmt: skip
_SHARING = ("Share on Facebook", "Share on X", "Copy link", "Print this page", "Save for later", "Report a problem")
_FOOTER = (
    "© {site}. All rights reserved. No part of this site may be reproduced without written permission.",
    "Sign up for our newsletter and never miss a story. You can unsubscribe at any time.",
    "Enter your email address",
    "This site is protected by reCAPTCHA and the privacy policy and terms of service apply.",
    "Follow us for daily updates, giveaways and behind-the-scenes stories.",
)
_COMMENTS = (
    "Great read, thanks for sharing!", "First!", "Can somebody fix the typo in the second paragraph?",
    "Came here from the podcast, not disappointed.", "I disagree with almost everything here, but well written.",
    "Does anyone know a good place to park nearby?",
)  # fmt: skip


@dataclass(frozen=True)
class PageBlock:
    kind: BlockKind
    text: str
    """As a reader sees it; headings, items and rows without their signs."""

    href: str = ""
    level: int = 2


@dataclass(frozen=True)
class DemoPage:
    url: str
    title: str
    site: str
    blocks: tuple[PageBlock, ...]
    claims: tuple[LoreFact, ...]

    @cached_property
    def markdown(self) -> str:
        """As crawlers hand it out."""
        return "\n".join(_markdown(self.blocks))

    @cached_property
    def html(self) -> str:
        return _html(self)

    @cached_property
    def boilerplate(self) -> tuple[str, ...]:
        """What a reader sees of menus, banners, adverts, link lists, forms and footers."""
        return tuple(dict.fromkeys(block.text for block in self.blocks if block.kind == "boilerplate"))

    @cached_property
    def article(self) -> str:
        return "\n".join(block.text for block in self.blocks if block.kind != "boilerplate")


@dataclass(frozen=True)
class SmallWeb:
    country: Country
    pages: tuple[DemoPage, ...]

    @property
    def subject(self) -> str:
        return self.country.name

    def page(self, url: str) -> DemoPage | None:
        plain = url.strip().rstrip("/").lower()
        return next((page for page in self.pages if page.url == plain), None)

    def search(self, query: str, limit: int) -> list[tuple[DemoPage, str]]:
        """Pages that have words of the query, the best first, each with a passage that has them."""
        wanted = {word for word in _words(query) if len(word) > 2} - _words(self.subject)
        ranked = sorted(
            ((self._fit(page, wanted), number) for number, page in enumerate(self.pages)),
            key=lambda one: (-one[0], one[1]),
        )
        return [(self.pages[number], _passage(self.pages[number], wanted)) for _, number in ranked[:limit]]

    def _fit(self, page: DemoPage, wanted: set[str]) -> float:
        title, text = _words(page.title), _words(page.article)
        # All of them are about the country: whoever asks for many gets all.
        return 0.01 + 3.0 * len(wanted & title) + 0.2 * len(wanted & text)


@lru_cache(maxsize=8)
def draw_web(seed: int) -> SmallWeb:
    country = draw_country(seed)
    rng = random.Random(f"web {seed}")
    planned = _distributed(rng, country)
    pages: list[DemoPage] = []
    for number, claims in enumerate(planned):
        kind, which = KINDS[number % len(KINDS)], number // len(KINDS)
        site = _SITES[(number + which) % len(_SITES)]
        pages.append(
            _page(
                random.Random(f"page {seed} {number}"),
                country,
                _TITLES[kind][which].format(name=country.name),
                site,
                claims,
            )
        )
    return SmallWeb(country, tuple(pages))


def _distributed(rng: random.Random, country: Country) -> list[list[LoreFact]]:
    """The claims of each page: mostly of its own kind, never two that contradict each other."""
    pages: list[list[LoreFact]] = [[] for _ in range(PAGES)]

    def place(claim: LoreFact) -> None:
        own = KINDS.index(claim.kind)
        weights = [6 if number % len(KINDS) == own else 1 for number in range(PAGES)]
        while True:
            page = rng.choices(pages, weights)[0]
            if not any(other.about == claim.about and other.kind == claim.kind for other in page):
                page.append(claim)
                return

    for claim in country.claims:
        place(claim)
    for claim in rng.sample(country.claims, int(REPEATED * len(country.claims))):
        place(claim)
    return pages


def _page(
    rng: random.Random, country: Country, title: str, site: tuple[str, str, str], claims: Sequence[LoreFact]
) -> DemoPage:
    host, name, section = site
    shown = name.format(name=country.name)
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    url = f"https://{host}.{country.name.lower()}.example/{section}/{slug}"
    filler = Filler(rng, country, tuple(rng.sample(country.people, 9)))
    body = _article(rng, filler, title, claims)
    blocks = [
        *_above(rng, host, country, shown),
        *_interrupted(rng, body, host, country),
        *_below(rng, host, country, shown),
    ]
    return DemoPage(url, title, shown, tuple(blocks), tuple(claims))


def _article(rng: random.Random, filler: Filler, title: str, claims: Sequence[LoreFact]) -> list[PageBlock]:
    sentences: list[str] = []
    items: list[str] = []
    rows: list[str] = []
    for claim in claims:
        said = rng.choice(PHRASINGS[claim.kind]).format(about=claim.about, value=claim.value)
        (items if said.startswith("* ") else rows if said.startswith("| ") else sentences).append(said)
    sections = rng.sample(_SECTIONS, 9)
    paragraphs: list[str] = []
    size = 0
    waiting = [said[0].upper() + said[1:] for said in sentences]
    while size < ARTICLE_TOKENS:
        paragraphs.append(filler.paragraph())
        size += O200K.count(paragraphs[-1])
    for said in waiting:
        at = rng.randrange(len(paragraphs))
        parts = re.split(r"(?<=\.) ", paragraphs[at])
        parts.insert(rng.randint(0, len(parts)), said)
        paragraphs[at] = " ".join(parts)
    blocks = [PageBlock("heading", title, level=1)]
    each = len(paragraphs) // len(sections) + 1
    listed, tabled = rng.sample(range(1, len(sections)), 2)
    for number, heading in enumerate(sections):
        blocks.append(PageBlock("heading", heading))
        blocks += [PageBlock("text", text) for text in paragraphs[number * each : (number + 1) * each]]
        if number == listed and items:
            blocks.append(PageBlock("text", "To be brief, here is what can be said in one line each:"))
            blocks += [PageBlock("item", said[2:]) for said in items]
        if number == tabled and rows:
            blocks.append(PageBlock("row", "Entry | What | Said to be"))
            blocks += [PageBlock("row", said.strip("| ")) for said in rows]
    return blocks


def _link(text: str, host: str, country: Country) -> PageBlock:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return PageBlock(
        "boilerplate",
        text,
        href=f"https://{host}.{country.name.lower()}.example/{slug}?utm_source=menu&ref={len(slug)}",
    )


def _above(rng: random.Random, host: str, country: Country, site: str) -> list[PageBlock]:
    return [
        PageBlock("boilerplate", "Skip to main content", href="#content"),
        PageBlock("boilerplate", rng.choice(_BANNERS[:2])),
        *(PageBlock("boilerplate", text) for text in ("Accept all", "Reject all", "Manage preferences")),
        *(_link(f"{site} {text}" if rng.random() < 0.2 else text, host, country) for text in rng.sample(_MENU, 24)),
        PageBlock("boilerplate", rng.choice(_BANNERS[2:])),
        PageBlock("boilerplate", "Search this site"),
    ]


def _interrupted(rng: random.Random, body: list[PageBlock], host: str, country: Country) -> list[PageBlock]:
    """The article, with adverts and link boxes between its paragraphs."""
    found: list[PageBlock] = []
    for number, block in enumerate(body):
        found.append(block)
        if block.kind == "text" and number % 9 == 5:
            found.append(PageBlock("boilerplate", rng.choice(_ADVERTS)))
        if block.kind == "text" and number % 21 == 11:
            found.append(PageBlock("boilerplate", "You may also like"))
            found += [_link(text, host, country) for text in rng.sample(_RELATED, 3)]
    return found


def _below(rng: random.Random, host: str, country: Country, site: str) -> list[PageBlock]:
    blocks = [PageBlock("boilerplate", text, href="#share") for text in _SHARING]
    blocks.append(PageBlock("boilerplate", "Related articles"))
    blocks += [_link(text, host, country) for text in rng.sample(_RELATED, 8)]
    blocks.append(PageBlock("boilerplate", "Most popular this week"))
    blocks += [_link(f"{rng.choice(_RELATED)} ({rng.randint(2, 40)} min read)", host, country) for _ in range(6)]
    blocks.append(PageBlock("boilerplate", f"Comments ({rng.randint(3, 90)})"))
    for text in rng.sample(_COMMENTS, 4):
        blocks += [PageBlock("boilerplate", text), PageBlock("boilerplate", "Reply", href="#reply")]
    blocks.append(PageBlock("boilerplate", "Log in to leave a comment", href="#login"))
    blocks += [_link(text, host, country) for text in rng.sample(_MENU, 16)]
    blocks += [PageBlock("boilerplate", text.format(site=site)) for text in _FOOTER]
    return blocks


def _markdown(blocks: Sequence[PageBlock]) -> list[str]:
    lines: list[str] = []
    before: PageBlock | None = None
    for block in blocks:
        if before and not (before.kind == block.kind in ("item", "row") or (before.href and block.href)):
            lines.append("")
        match block.kind:
            case "heading":
                lines.append(f"{'#' * block.level} {block.text}")
            case "item":
                lines.append(f"* {block.text}")
            case "row":
                lines.append(f"| {block.text} |")
                if before is None or before.kind != "row":
                    lines.append("|---|---|---|")
            case _:
                lines.append(f"* [{block.text}]({block.href})" if block.href else block.text)
        before = block
    return [*lines, ""]


def _html(page: DemoPage) -> str:
    out = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        f"<head><title>{html.escape(page.title)} | {html.escape(page.site)}</title>",
    ]
    out += ["<script>window.dataLayer = window.dataLayer || [];</script></head>", "<body>"]
    open_list = ""
    for block in page.blocks:
        wanted = {"item": "ul", "row": "table"}.get(block.kind, "nav" if block.href else "")
        if wanted != open_list:
            out += [f"</{open_list}>"] * bool(open_list) + [f"<{wanted}>"] * bool(wanted)
            open_list = wanted
        text = html.escape(block.text)
        match block.kind:
            case "heading":
                out.append(f"<h{block.level}>{text}</h{block.level}>")
            case "item":
                out.append(f"<li>{text}</li>")
            case "row":
                out.append("<tr>" + "".join(f"<td>{cell.strip()}</td>" for cell in text.split("|")) + "</tr>")
            case "boilerplate" if block.href:
                out.append(f'<a href="{html.escape(block.href)}">{text}</a><br>')
            case "boilerplate":
                out.append(f'<div class="widget">{text}</div>')
            case _:
                out.append(f"<p>{text}</p>")
    return "\n".join([*out, f"</{open_list}>" if open_list else "", "</body>", "</html>", ""])


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"\w+", text.lower())}


def _passage(page: DemoPage, wanted: set[str]) -> str:
    texts = [block.text for block in page.blocks if block.kind == "text"]
    best = max(texts, key=lambda text: len(wanted & _words(text)), default="")
    return best[:280] + (" …" if len(best) > 280 else "")
