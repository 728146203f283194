"""Crawled pages, as Markdown, plain text or HTML: keep the text, drop the boilerplate.

Menus, banners, link farms, share buttons, teasers, footers and comment forms look alike
in every language: short lines, mostly links, no sentence ends, the same words repeated.
So a page is classified by its shape. Every block gets a value (text raises it, links and
fragments lower it), the run of blocks with the highest sum after the title is the body,
and blocks inside the body that are not text are dropped. A few international words
(cookie, newsletter, ©) help. Boilerplate never becomes a unit, so its lines are lost.

A crawl dump contains several pages: each is classified separately and keeps its address,
and all compete for one budget. `prose` scores sentences, `html_pages` parses tags.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tersely.condensing.detect import Reader, Sample, Signs, once
from tersely.condensing.focus import Focus, scan
from tersely.condensing.hedge import with_lines
from tersely.condensing.merge import moved
from tersely.condensing.readers import html_pages, prose, tables
from tersely.condensing.readers.blocks import Block, BlockKind, is_ended
from tersely.condensing.readers.prose import Paragraph
from tersely.condensing.units import Reading, Unit

LARGEST_PAGE = 2_000_000
"""In characters; a longer page is read in slices."""

_LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\[\]\n]{0,200}\]){0,600}?)\]\(([^()\n]{0,2000}(?:\([^()\n]{0,300}\)[^()\n]{0,300}){0,3})\)"
)
_ITEM = re.compile(r"\s*(?:[*+•·‣–-]|\d{1,3}[.)])\s+")
_WORD = re.compile(r"\w+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_HOUSEHOLD = (
    "cookie", "newsletter", "©", "copyright", "rights reserved", "privacy policy", "datenschutz", "mentions légales",
    "akismet",
    "クッキー", "プライバシーポリシー",
)  # fmt: skip
"""Words of the website rather than of the text, similar in most languages."""
_CREDIT = re.compile(
    r"(?:photo|foto|image|bild|credit|crédit|picture|imagen|immagine|fotografía|grafik|illustration)s?\s*(?::|©|/|\bby\b|\bvon\b)"
    r"|[(/](?:ap|afp|reuters|getty|dpa)\b|\bvia (?:ap|afp|reuters|getty)\b|\([^()]{3,40}/[^()]{2,40}\)$"
    r"|(?:写真|画像|提供)[：:]"
)
_CREDIT_SIGNS = (":", "/", "(", "©", "by", "von", "：")
"""Every credit contains one of these; testing for them first is much cheaper."""
_SOURCE = re.compile(
    r"[\s#=*_>\[(|<!-]{0,12}(?:(?:url|source|page|link|address|quelle|seite|adresse|fuente|fonte|uri|document|from)\b[^\n:=]{0,20}[:=]|\d{1,3}[.):\]])?"
    r"[\s<\"'(\[*]{0,5}(?P<url>https?://[^\s<>\"'()\[\]]{4,1000})[>\"')\]*|]{0,3}[\s=*_>-]{0,80}$",
    re.I,
)
_NAMED_ABOVE = re.compile(r"#{1,6}\s+\S|[*_]{0,2}(?:title|titel|titre|título|titolo)\b[^\n:]{0,10}:", re.I)
_HTML_OPENING = re.compile(
    r"[\s\ufeff]{0,200}(?:<\?xml[^<>]{0,200}>\s{0,200})?(?:<!--.{0,2000}?-->\s{0,200}){0,5}"
    r"<(?:!doctype html|html[\s>])",
    re.I | re.S,
)
_HTML_TAG = re.compile(r"<(?:html|head|body|div|p|a|span|li|td|h[1-6]|script|meta)[\s>]", re.I)
_COMMENTS = re.compile(
    r"[#*_\s]{0,9}(?:"
    r"(?:(?:all|view|show|user|reader|\d{1,5})\s){0,3}(?:comments|kommentare|commentaires|comentarios|commenti|reacties|コメント)"
    r"[\s:(#*_\d)]{0,12}(?:(?:to|on|zu|sur)\s.{0,120})?"
    r"|(?:\d{1,5}|one|eine?|une?)\s"
    r"(?:comment|response|reply|replies|responses|thoughts?|kommentar|gedanken?|commentaire|comentario)\b.{0,120}"
    r"|(?:leave|post|add|write) (?:a|your) (?:reply|comment)\b.{0,40}|responses to .{1,120}"
    r"|join the (?:conversation|discussion)|schreibe einen kommentar(?: antworten abbrechen)?"
    r"|kommentar (?:schreiben|verfassen)|laisser un commentaire|deja (?:un comentario|una respuesta)|lascia un commento"
    r")[\s*_.!]{0,5}$",
    re.I,
)
"""A line that opens the comments of readers."""
_DOCTYPE = re.compile(r"<!doctype html", re.I)
_HTML = re.compile(r"<html[\s>]", re.I)
_PAIR = re.compile(r"^[^:：\n]{2,40}[:：]\s*\S", re.M)
_DATA_LINE = re.compile(r"[\w./-]+\s?[:=]|[-#/\"'{\[(<]|\d")
_RULE = re.compile(r"\s*(?:[-=*_~#]\s?){3,}$")

_TOWARDS_THE_END = 0.5
"""How much less a block counts at the end of a page than at its beginning: comments and footers come last."""
_BESIDE_REPEATED = 0.4
"""Text next to a line that the page repeats (Reply, Share, Add to cart) is one of many: a comment, a card, a teaser."""
_BETWEEN_LINKS = 0.2
"""A text between two links is the teaser of one of them."""
_DIVIDER = 0.4
"""A repeated line divides rather than ends: a page of many similar parts is still one page."""
_BEFORE_COMMENTS = 0.3
_MOST_OPENINGS = 5
"""Smallest value of a body before the comments, relative to the best run; only so many lines are tried as openings."""
_NOTICE = 350
"""A longer text with one household word may speak about cookies or letters; a notice of the website has several."""
_SAYS_SOMETHING = 40
"""A line with so many characters beside its links is more than a menu entry or a teaser."""
_FALL = 3.0
_FALL_SHARE = 0.3
"""The body ends where the sum has fallen by this amount and by this share of its maximum."""
_LEAD = 0.05
_SECOND = 0.5
"""Smallest value, relative to the first run, of a second run: little under the title, much after the body."""
_AFTERWORD = 0.25
_AFTERWORD_BLOCKS = 2
_MOST_AFTERWORDS = 3
"""Largest share of the body, and number of blocks, of words after it that links separate from it; and how many such
groups of blocks are looked at."""
_MOST_ASIDES = 2_000
_TABLE_ROWS = 8
"""From this many rows on, a table is scored as a whole."""


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    parts: list[Paragraph] = []
    found = split_pages(text)
    first, second = next(found), next(found, None)
    named = False
    for page in chain((first,), (second,) if second else (), found):
        body = body_of(page, focus, alone=second is None)
        named = body.named
        if page.address and body.parts:
            parts.append(Paragraph(page.line, page.line, page.address, heading=1))
        parts += body.parts
    if not any(not part.heading for part in parts):
        return None
    return _reading(parts, focus, budget, named)


# ---------------------------------------------------------------- pages and blocks


@dataclass(slots=True)
class Page:
    text: str
    line: int
    """The first source line."""
    address: str = ""
    """The line that names the page in a dump."""
    offset: int = 0
    """Number of lines between `line` and the text."""


def looks_like_html(text: str) -> bool:
    if _HTML_OPENING.match(text):
        return True
    opening = text[:20_000]
    if opening.count("</") < 3:
        return False
    tags = len(_HTML_TAG.findall(opening))
    # Markdown may contain a few tags, or speak about them.
    return tags >= (5 if opening.lstrip()[:1] == "<" else max(5, len(opening) // 400))


def looks_like_page(lines: Sequence[str]) -> bool:
    """Whether sentences appear on lines of their own: text, with or without boilerplate, rather than data."""
    whole = [line for line in lines if _is_sentence(line)]
    return len(whole) >= 4 and sum(map(len, whole)) >= 0.12 * sum(map(len, lines))


def _is_sentence(line: str) -> bool:
    line = line.rstrip()
    if line[-1:] in ("。", "！", "？"):
        return len(line) >= 20
    if len(line) < 60 or line[0].isspace() or line[-1] not in '.!?…”"»)' or _DATA_LINE.match(line):
        return False
    words = line.split(" ")
    return len(words) >= 9 and sum(1 for word in words if word.strip(".,;:!?\"“”‘’'()«»…–—-").isalpha()) >= 0.75 * len(
        words
    )


def split_pages(text: str) -> Iterator[Page]:
    """Yield the pages of a crawl dump with the lines that name them; other texts are a single page."""
    starts = (_addresses(text) if "http" in text else []) or _documents(text)
    if not starts:
        yield from _slices(text, 1, "")
        return
    first = starts[0][0]
    if _WORD.search(text, 0, first):
        yield from _slices(text[:first], 1, "")
    line, counted = 1, 0
    for (begin, end, address), (following, _, _) in zip(starts, [*starts[1:], (len(text), 0, "")], strict=True):
        line += text.count("\n", counted, begin)
        counted = begin
        yield from _slices(text[end:following], line, address)


def _addresses(text: str) -> list[tuple[int, int, str]]:
    """Return start, end and text of the lines that open a page.

    A bare link counts only after a rule or at the beginning of the text.
    """
    found: list[tuple[int, int, str]] = []
    opening = len(text) - len(text.lstrip())
    at = text.find("http")
    while at >= 0:
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if (
            at - begin <= 60
            and end - begin <= 1_200
            and "](" not in text[begin:at]
            and (match := _SOURCE.match(text, begin, end))
        ):
            above = text.rfind("\n", 0, max(0, begin - 1)) + 1
            before = text[above:begin].strip()
            if before and begin - above < 400 and _NAMED_ABOVE.match(before):
                found.append((above, end, f"{before}\n{text[begin:end].strip()}"))
            else:
                ruled = _RULE.match(text[max(0, begin - 200) : begin].rstrip().rsplit("\n", 1)[-1])
                bare = not text[begin : match.start("url")].strip()
                if not bare or ruled or begin <= opening:
                    found.append((begin, end, text[begin:end].strip()))
        at = text.find("http", end)
    if not found:
        return []
    # A page has a body: consecutive addresses are a list of links.
    kept = [
        here for here, after in zip(found, [*found[1:], (len(text), 0, "")], strict=True) if after[0] - here[1] >= 200
    ]
    if len(kept) < 0.6 * len(found) or (len(kept) == 1 and text[: kept[0][0]].strip()):
        return []
    return kept


def _documents(text: str) -> list[tuple[int, int, str]]:
    """Return where concatenated HTML documents begin."""
    for opening in (_DOCTYPE, _HTML):
        found = [(start.start(), start.start(), "") for start in opening.finditer(text)]
        if len(found) > 1:
            return found
    return []


def _slices(text: str, line: int, address: str) -> Iterator[Page]:
    offset = start = 0
    while len(text) - start > LARGEST_PAGE:
        end = text.find("\n", start + LARGEST_PAGE // 2, start + LARGEST_PAGE) + 1 or start + LARGEST_PAGE // 2
        yield Page(text[start:end], line, address if start == 0 else "", offset)
        offset += text.count("\n", start, end)
        start = end
    yield Page(text[start:], line, address if start == 0 else "", offset)


def without_links(text: str) -> str:
    """Replace Markdown links by their texts and remove images."""
    return _marked(text).replace("\x01", "").replace("\x02", "")


def _marked(text: str) -> str:
    """Put link texts between \\x01 and \\x02; a link may span lines and contain an image."""
    if "\x01" in text or "\x02" in text:
        text = text.replace("\x01", "").replace("\x02", "")
    for _ in range(2):
        if "](" in text:
            text = _LINK.sub(_mark_link, text)
    return text


def _mark_link(link: re.Match[str]) -> str:
    if link.group(1):
        return ""
    return "\x01" + link.group(2).replace("\n", "\x02\n\x01") + "\x02"


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page in Markdown or plain text."""
    blocks: list[Block] = []
    apart, fenced = True, False
    lines = _marked(text).split("\n")
    # Where blank lines are rare, every line is a paragraph.
    spaced = sum(1 for line in lines if not line or line.isspace()) * 8 > len(lines)
    for number, line in enumerate(lines, 1):
        shown = line.strip()
        if not shown:
            apart = True
            continue
        linked = 0
        if "\x01" in shown:
            linked = sum(part.find("\x02") for part in shown.split("\x01")[1:])
            line = line.replace("\x01", "").replace("\x02", "")
            shown = line.strip()
            if not shown:
                continue
        kind: BlockKind = "text"
        sign = shown[0]
        if sign == "`" and shown.startswith("```"):
            fenced = not fenced
            kind = "code"
        elif fenced:
            kind, shown = "code", line.rstrip()
        elif sign == "#":
            if not shown.strip("# *"):
                continue
            kind = "heading"
        elif sign == "|":
            if not shown.strip("|-: "):
                continue
            kind = "row"
        elif (not sign.isalpha()) and _ITEM.match(line):
            kind = "item"
        before = blocks[-1] if blocks and not apart and kind == blocks[-1].kind == "text" else None
        texts = before is not None and linked <= len(shown) / 2 and before.linked <= before.plain
        if before is not None and texts and len(before.text) < 4_000 and (spaced or _goes_on(before, shown)):
            # Lines of one paragraph: wrapped, or broken by hand.
            before.text += "\n" + shown
            before.last = number
            before.linked += linked
            before.ended = is_ended(shown)
        else:
            blocks.append(Block(shown, number, number, kind, linked, apart or not spaced, is_ended(shown)))
        apart = False
    return blocks


def _goes_on(block: Block, line: str) -> bool:
    """Whether the line continues this block because of wrapping."""
    return not block.ended and line[0].islower() and len(block.text) - block.text.rfind("\n") > 45


# ---------------------------------------------------------------- the body


@dataclass(slots=True)
class Body:
    parts: list[Paragraph]
    named: bool
    """Whether the focus is the title: then no part of the page answers it better than the rest."""


def body_of(page: Page, focus: Focus, *, alone: bool = True) -> Body:
    """Return the text of a page without boilerplate; `alone` if the focus cannot refer to another page."""
    title = ""
    if looks_like_html(page.text):
        title, blocks = html_pages.blocks_of(page.text)
    else:
        blocks = blocks_of(page.text)
    asked = _words(focus.text)
    wide = 2.5 if _is_wide("".join(block.text for block in blocks[:200])) else 1.0
    values = [_value(block, wide) for block in blocks]
    titled = _title_at(blocks, asked, _words(title))
    chosen = _stretches(blocks, values, titled)
    kept = _text_within(blocks, values, chosen, wide)
    kept = _without_afterwords(blocks, values, _without_hanging_headings(blocks, kept))
    named = alone and titled is not None and _names_it(focus, blocks[titled].text)
    if named:
        kept = [at for at in kept if not (blocks[at].kind == "heading" and _words(blocks[at].text) <= asked)]
    shown = set(kept)
    line = page.line + page.offset - 1
    parts = [part for at in kept for part in _paragraphs(blocks[at], line)]
    if parts and not named and titled not in shown:
        if titled is not None and blocks[titled].kind == "heading":
            parts = [*_paragraphs(blocks[titled], line), *parts]
            shown.add(titled)
        elif title:
            parts.insert(0, Paragraph(page.line, page.line, title, heading=2))
    if not named and prose.asks(focus):
        parts = _with_asides(parts, blocks, values, shown, line)
    return Body(parts, named)


def _with_asides(
    parts: list[Paragraph], blocks: list[Block], values: list[float], shown: set[int], line: int
) -> list[Paragraph]:
    """Return the body and, in source order, informative lines beside it: an answer may be in a box or a footer.

    Their headings come with them, so that none is read as part of the section before it.
    """
    seen = {part.text for part in parts}
    asides: list[Paragraph] = []
    owners: list[int] = []
    for at, block in enumerate(blocks):
        if block.kind == "heading":
            while owners and _level(blocks[owners[-1]]) >= _level(block):
                owners.pop()
            owners.append(at)
            continue
        if at in shown or values[at] <= -0.3 or block.plain < 8 or block.text in seen or len(asides) >= _MOST_ASIDES:
            continue
        seen.add(block.text)
        for owner in owners:
            if owner not in shown:
                shown.add(owner)
                asides += _paragraphs(blocks[owner], line)
        for part in _paragraphs(block, line):
            part.aside = True
            asides.append(part)
    return sorted([*parts, *asides], key=lambda part: part.first) if asides else parts


def _is_wide(text: str) -> bool:
    """Whether the text uses a script whose characters carry as much as two or three letters each."""
    return len(_WIDE.findall(text[:8_000])) * 4 > len(text[:8_000])


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) > 2 or not word.isascii()}


def _names_it(focus: Focus, title: str) -> bool:
    """Whether the focus is hardly more than the title: the title itself, or its words without a question."""
    plain, wanted = (" ".join(_WORD.findall(text.lower())) for text in (title, focus.text))
    if len(plain) > 10 and plain in wanted:
        return True
    words, asked = _words(title), _words(focus.text)
    return not prose.asks(focus) and len(words & asked) >= 0.6 * len(words) and len(asked - words) <= max(4, len(words))


def _value(block: Block, wide: float) -> float:
    """Score how likely a block is part of the body; about one for a short sentence, negative for boilerplate."""
    if block.boilerplate >= 1:
        return -0.6
    plain = block.plain * wide
    if block.kind == "heading":
        return -0.5 if block.linked > block.plain else -0.6 if _household(block.text.lower()) else 0.0
    if block.linked > (0.8 * len(block.text) if block.kind == "row" else block.plain):
        if plain >= _SAYS_SOMETHING:
            return 0.0
        return -0.3 - min(block.linked * wide, 200) / 200
    if block.kind in ("row", "code"):
        return 0.2
    if (block.ended and plain >= 25) or plain > 200:
        low = block.text.lower()
        said = _household(low)
        if said > 1 or (said and plain < _NOTICE):
            return -1.0
        if block.kind == "text" and plain < 320 and _is_credited(low):
            return -0.3
        value = min(plain, 400) / 100 * block.plain / len(low)
    elif plain >= 100:
        value = plain / 200
        if _is_credited(block.text.lower()):
            return -0.3
    elif (plain >= 30 and (block.kind == "item" or _ITEM.match(block.text))) or _has_pairs(block):
        value = 0.1
    elif block.ended or (block.text.startswith("**") and block.text.endswith("**") and plain > 8):
        return 0.0
    else:
        return -0.2 if _WORD.search(block.text) else -0.3
    return value * (1 - 0.75 * min(1.0, 2 * block.boilerplate))


def _household(low: str) -> int:
    """Return how many words of the website a text (in lower case) has."""
    return sum(1 for word in _HOUSEHOLD if word in low)


def _is_credited(low: str) -> bool:
    """Whether a text (in lower case) ends like a caption, with a picture credit."""
    tail = low[-90:]
    return any(sign in tail for sign in _CREDIT_SIGNS) and _CREDIT.search(tail) is not None


def _title_at(blocks: list[Block], asked: set[str], title: set[str]) -> int | None:
    """Return the heading that names the page: the requested one, else a first-level one."""
    best, where = 0.25, None
    for at, block in enumerate(blocks):
        heading = block.kind == "heading"
        if not heading and (block.kind != "text" or block.linked or len(block.text) > 200):
            continue
        words = _words(block.text)
        if not words:
            continue
        share = max(len(words & asked), len(words & title)) / len(words)
        score = 0.0
        if share >= (0.6 if heading else 0.8) and (heading or len(words) > 2):
            score = share * min(1.0, len(words) / 2) - (0.0 if heading else 0.4)
        if block.text.startswith("# "):
            score += 0.3
        if score > best:
            best, where = score + 1e-9, at
    return where


def _stretches(blocks: list[Block], values: list[float], titled: int | None) -> list[tuple[int, int]]:
    """Return the runs of blocks that make up the body, in order."""
    count = len(blocks)
    repeated = Counter(block.text for block in blocks if len(block.text) < 60 and block.kind != "row")
    marks = [repeated[block.text] >= 3 for block in blocks]
    weighted = []
    for at, value in enumerate(values):
        if value > 0:
            value *= 1 - _TOWARDS_THE_END * at / count
            if any(marks[max(0, at - 2) : at + 3]):
                value *= _BESIDE_REPEATED
            elif (
                0 < at < count - 1
                and _is_link(blocks[at - 1], values[at - 1])
                and _is_link(blocks[at + 1], values[at + 1])
            ):
                value *= _BETWEEN_LINKS
        elif marks[at]:
            value *= _DIVIDER
        weighted.append(value)
    count = _before_comments(blocks, weighted, titled or 0)
    best, begin, end = _best_run(weighted, 0, count)
    if titled is not None:
        after = _best_run(weighted, titled, count, stop=True)
        if after[0] >= 0.4 * best:
            best, begin, end = after
    while begin > (titled or 0) and _leads_on(blocks[begin - 1], values[begin - 1]):
        begin -= 1
    found = [(begin, _to_block_end(blocks, end))]
    # A lead under the title; a body in two halves, with a shop or a gallery between them.
    for low, high, share in ((begin if titled is None else titled, begin, _LEAD), (found[0][1], count, _SECOND)):
        while high - low > 0:
            value, begin, end = _best_run(weighted, low, high)
            if value < share * best or value < 0.5:
                break
            end = min(high, _to_block_end(blocks, end))
            found.append((begin, end))
            low = end
    return sorted(found)


def _before_comments(blocks: list[Block], weighted: list[float], low: int) -> int:
    """Return where the comments of readers begin, if the text before them can be a body; else the end of the page."""
    count = len(blocks)
    opening = [at for at in range(low + 1, count) if len(blocks[at].text) < 160 and _COMMENTS.match(blocks[at].text)]
    if opening:
        enough = max(1.5, _BEFORE_COMMENTS * _best_run(weighted, low, count)[0])
        for at in opening[:_MOST_OPENINGS]:
            if _best_run(weighted, low, at)[0] >= enough:
                return at
    return count


def _leads_on(block: Block, value: float) -> bool:
    """Whether a block right before the body belongs to it: a heading, a dateline, an introductory line."""
    if block.kind == "heading":
        return value == 0
    return block.kind == "text" and value > -0.3 and not block.linked and not block.boilerplate and block.plain >= 60


def _is_link(block: Block, value: float) -> bool:
    return value <= -0.4 and block.linked >= 15


def _best_run(values: list[float], low: int, high: int, *, stop: bool = False) -> tuple[float, int, int]:
    """Return the run with the highest sum; with `stop`, the first good one, which ends where the sum keeps falling."""
    best, found = 0.0, (low, low)
    current, begin = 0.0, low
    for at in range(low, high):
        if current <= 0:
            current, begin = 0.0, at
        current += values[at]
        if current > best:
            best, found = current, (begin, at + 1)
        elif stop and best >= 1.5 and best - current > max(_FALL, _FALL_SHARE * best):
            break
    return best, *found


def _to_block_end(blocks: list[Block], end: int) -> int:
    """Extend the end while lines belong to the paragraph before it, or to a list announced by a colon."""
    while 0 < end < len(blocks):
        block = blocks[end]
        if block.linked > block.plain:
            break
        if block.kind == "heading":
            below = blocks[end + 1] if end + 1 < len(blocks) else block
            if not (_announces(block) and below.kind == "item" and below.linked <= below.plain):
                break
        elif block.apart and not _announces(blocks[end - 1]):
            break
        end += 1
    return end


def _announces(block: Block) -> bool:
    return block.text.rstrip("*_ ").endswith((":", "："))


def _text_within(blocks: list[Block], values: list[float], stretches: list[tuple[int, int]], wide: float) -> list[int]:
    """Return the blocks of the body that are text."""
    kept: list[int] = []
    seen: set[str] = set()
    for begin, end in stretches:
        run = range(begin, end)
        whole = sum(blocks[at].plain for at in run if blocks[at].kind == "text" and blocks[at].ended)
        stubs = sum(blocks[at].plain for at in run if blocks[at].kind == "text" and not blocks[at].ended)
        prose_like = whole > 4 * stubs
        for at in run:
            block = blocks[at]
            if (
                values[at] <= -0.3
                or _opens_box(blocks, values, at)
                or (block.kind == "code" and not _WORD.search(block.text))
            ):
                continue
            # A short block that begins like another is its teaser; a long one must be equal throughout.
            start = block.text[:80] if len(block.text) < 250 else block.text
            follows_equal = kept[-1:] == [at - 1] and blocks[at - 1].text == block.text  # It is counted.
            if len(start) > 12 and start in seen and not follows_equal:
                continue
            seen.update((start, block.text[:80]))
            if prose_like and _is_stub(block, wide) and not _in_list(blocks, at, begin, end, wide):
                continue
            kept.append(at)
    return kept


def _opens_box(blocks: list[Block], values: list[float], at: int) -> bool:
    """Whether a heading has only links below it: "Related", "Most read"."""
    block = blocks[at]
    if block.kind != "heading" or block.text.startswith("# ") or at + 1 >= len(blocks):
        return False
    below = blocks[at + 1]
    return (
        values[at + 1] <= -0.3
        and below.kind != "heading"
        and (below.kind == "item" or (at + 2 < len(blocks) and values[at + 2] <= -0.3))
    )


def _is_stub(block: Block, wide: float) -> bool:
    """Whether a line is a fragment: a caption, a label, a button."""
    return (
        block.kind == "text"
        and not block.ended
        and block.plain * wide < 150
        and not block.text.startswith("**")
        and not _has_pairs(block)
    )


def _has_pairs(block: Block) -> bool:
    """Whether most of its lines are a name and a value: `Weight: 2.4 kg`."""
    lines = block.text.count("\n") + 1
    return lines > 1 and len(_PAIR.findall(block.text)) * 2 > lines


def _in_list(blocks: list[Block], at: int, begin: int, end: int, wide: float) -> bool:
    """Whether a fragment is one of several in a row with content (a date, an amount, a pair), as in a plain list."""
    if blocks[at].plain * wide < 15:
        return False
    low = high = at
    while low > begin and at - low < 3 and _is_stub(blocks[low - 1], wide):
        low -= 1
    while high + 1 < end and high - at < 3 and _is_stub(blocks[high + 1], wide):
        high += 1
    if high - low < 3:
        return False
    stating = sum(
        1 for other in range(low, high + 1) if any(sign.isdigit() or sign in ":：" for sign in blocks[other].text)
    )
    return stating * 2 > high - low


def _without_hanging_headings(blocks: list[Block], kept: list[int]) -> list[int]:
    """Remove headings that have nothing left below them."""
    result: list[int] = []
    below = 0
    for at in reversed(kept):
        block = blocks[at]
        if block.kind == "heading":
            if below == 0 or (below < 9 and below <= _level(block)):
                continue
            below = _level(block)
        else:
            below = 9
        result.append(at)
    return result[::-1]


def _without_afterwords(blocks: list[Block], values: list[float], kept: list[int]) -> list[int]:
    """Remove a few words after the body that links separate from it: about the author, the paper, how to subscribe."""
    most = _AFTERWORD * sum(blocks[at].plain for at in kept)
    for _ in range(_MOST_AFTERWORDS):
        first = max(1, len(kept) - _AFTERWORD_BLOCKS)
        for begin in range(len(kept) - 1, first - 1, -1):
            if any(value <= -0.3 for value in values[kept[begin - 1] + 1 : kept[begin]]):
                break
        else:
            return kept
        if sum(blocks[at].plain for at in kept[begin:]) > most:
            return kept
        kept = _without_hanging_headings(blocks, kept[:begin])
    return kept


def _level(heading: Block) -> int:
    return len(heading.text) - len(heading.text.lstrip("#"))


def _paragraphs(block: Block, line: int) -> list[Paragraph]:
    first, last = block.first + line, block.last + line
    if block.kind == "heading":
        return [Paragraph(first, last, block.text, heading=1 + max(1, _level(block)))]
    if "\n" not in block.text:
        return [Paragraph(first, last, block.text, whole=block.kind in ("row", "code"))]
    parts = prose.paragraphs(block.text)
    for part in parts:
        part.first, part.last = part.first + first - 1, part.last + first - 1
    return parts


# ---------------------------------------------------------------- the reading


def _reading(parts: list[Paragraph], focus: Focus, budget: int, named: bool) -> Reading:
    parts = prose.within_reach(parts, focus)
    reading = _as_table(parts, focus, budget)
    if reading is None:
        if not named:
            _value_rows(parts, focus, budget)
        reading = prose.reading_of(parts, focus, budget, "page", from_the_top=named)
    return reading


def _is_row(part: Paragraph) -> bool:
    return part.whole and part.text.startswith("|")


def _as_table(parts: list[Paragraph], focus: Focus, budget: int) -> Reading | None:
    """Read a page that is a table with a few words around it as a table; the words come first."""
    rows = [part for part in parts if _is_row(part)]
    others = [part for part in parts if not _is_row(part)]
    if len(rows) < _TABLE_ROWS or sum(len(part.text) for part in others) > 0.08 * sum(len(part.text) for part in rows):
        return None
    cells = Counter(part.text.count(" | ") for part in rows)
    usual = cells.most_common(1)[0][0]
    beside = [part for part in rows if part.text.count(" | ") != usual]
    by_line = len({part.first for part in rows}) == len(rows)
    if by_line and len(beside) >= 0.1 * len(rows) and usual and len(rows) - len(beside) >= _TABLE_ROWS:
        rows = [part for part in rows if part.text.count(" | ") == usual]  # Notes between the rows are no rows.
    else:
        beside = []
    reading = tables.read("\n".join(part.text for part in rows), focus, budget)
    if reading is None:
        return None
    moved(reading, lambda line: rows[line - 1].first, lambda line: rows[line - 1].last)
    if beside:
        reading = _with_notes(reading, beside, focus)
    reading.head = "\n".join([*(part.text for part in others), *([reading.head] if reading.head else [])])
    return reading


def _with_notes(reading: Reading, notes: list[Paragraph], focus: Focus) -> Reading:
    """Add the rows of another layout; one that answers is shown below the row before it."""
    found = scan([note.text for note in notes], focus)
    rows = sorted((unit for unit in reading.units if unit.parent is not None), key=lambda unit: unit.first)
    lines: list[Unit] = []
    for note, relevance in zip(notes, found.relevance, strict=True):
        lines.append(Unit(note.text, note.first, note.last, relevance))
        before = bisect_left(rows, note.first, key=lambda unit: unit.first) - 1
        if before >= 0:
            rows[before].score = max(rows[before].score, relevance)
    return replace(with_lines(reading, lines), proven=False)


def _value_rows(parts: list[Paragraph], focus: Focus, budget: int) -> None:
    """Put the first row of larger tables above the others.

    If the question compares rows, the table reader scores them.
    """
    compared = bool(focus.superlative or focus.unusual or focus.comparisons or focus.negated)
    at = 0
    while at < len(parts):
        end = at
        while end < len(parts) and _is_row(parts[end]):
            end += 1
        if end - at >= _TABLE_ROWS:
            rows = parts[at:end]
            reading = tables.read("\n".join(part.text for part in rows), focus, budget) if compared else None
            for unit in reading.units if reading else ():
                if unit.last >= unit.first:
                    part = rows[unit.first - 1]
                    part.given = max(part.given or 0.0, unit.score)
            rows[0].heading = prose.TABLE_HEAD
        at = max(end, at + 1)


_SITE_WORDS = (
    r"home(?:page)?|menu|navigation|search|shop|about(?: us)?|contact(?: us)?|log ?in|sign (?:in|up)|register|subscribe"
    r"|newsletter|share|follow us|comments?|read more|related|imprint|legal(?: notice)?|sitemap|advertisement"
    r"|startseite|kontakt|anmelden|impressum|datenschutz|teilen|kommentare|mehr|accueil|connexion|s'abonner|partager"
    r"|mentions légales|inicio|contacto|iniciar sesión|suscribirse|compartir|contatti|accedi|condividi"
    r"|ホーム|ログイン|コメント|お問い合わせ|返信"
)
_SITE_LINE = re.compile(rf"\W{{0,4}}({_SITE_WORDS})(?:\W{{0,4}}$|: .{{1,30}}$)", re.I)
"""A line of a website's own: nothing but one of the words that stand on every website, or such a word as a label."""
_SITE_PHRASE = re.compile(
    r"cookie|newsletter|©|all rights reserved|privacy policy|datenschutzerkl|mentions légales|クッキー|プライバシー",
    re.I,
)
_SITE_SIGNS = 2
"""So many different signs of a website make lines of sentences a page; one may stand in any text."""


@once
def has_sentence_lines(sample: Sample) -> bool:
    return looks_like_page(sample.lines)


def _is_page(sample: Sample) -> bool:
    """Whether sentences on lines of their own stand among the links or the menus of a website.

    Sentences alone prove nothing: reports, compilers and commented configuration write them too.
    """
    return has_sentence_lines(sample) and (sample.linked or _has_site_signs(sample.lines))


def _has_site_signs(lines: Sequence[str]) -> bool:
    signs: set[str] = set()
    for line in lines:
        if len(line) > 400:
            continue
        if match := _SITE_LINE.match(line):
            signs.add(match.group(1).lower())
        elif match := _SITE_PHRASE.search(line):
            signs.add(match.group().lower())
        if len(signs) >= _SITE_SIGNS:
            return True
    return False


def _is_marked_up(sample: Sample) -> bool:
    return sample.marked >= 0.15 and sample.linked


READER = Reader(
    "page",
    Signs((0.59, _is_page), (0.3, _is_marked_up)),
    read,
    splits_at="nothing",
    holds_json=True,
    may_repeat=True,
)
