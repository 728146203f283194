"""Ended sessions by what they found: full-text search, and earlier sessions of alike alerts.

Searches the title and the verdict of every session that ended with one, best match
first. A text is stored once, in `past_sessions`, when its session ends; the index over
it is the database's own (FTS5 or a GIN index). Words are matched by their stems.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import sessions as session_rows
from tersely.store.packing import storable
from tersely.store.sessions import Session
from tersely.store.tables import past_sessions, sessions

MOST_WORDS = 16
LONGEST_TEXT = 20_000
_OPEN, _CLOSE = "\x02", "\x03"
"""Around the matching words of a snippet; no stored text contains them (`storable`)."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """The part of a text that matched."""

    text: str
    ranges: tuple[tuple[int, int], ...]
    """Start and end of each matching word in `text`, in characters."""


@dataclass(frozen=True, kw_only=True)
class Match:
    session: Session
    snippet: Snippet


@dataclass(frozen=True, kw_only=True)
class SeenBefore:
    """Earlier sessions of alike alerts that ended with a verdict."""

    count: int
    latest: Sequence[Session] = ()
    """Newest first, without their texts."""


async def add_verdict(db: AsyncConnection, session_id: str, verdict: Mapping[str, Any]) -> None:
    """Make an ended session searchable. Once per session, in the transaction that ends it."""
    title = await db.scalar(sa.select(sessions.c.title).where(sessions.c.id == session_id))
    text = searchable_text(title or "", verdict)
    row = {"session_id": session_id, "service": storable(str(verdict.get("service") or "")), "text": text}
    await db.execute(sa.insert(past_sessions).values(row))


def searchable_text(title: str, verdict: Mapping[str, Any]) -> str:
    """Title, cause, summary, actions and quotations, one per line."""
    lines = [title, verdict.get("service"), verdict.get("cause"), verdict.get("summary")]
    lines += [action.get("text") for action in verdict.get("actions") or ()]
    lines += [citation.get("quote") for citation in verdict.get("evidence") or ()]
    unique = dict.fromkeys(str(line) for line in lines if line)
    return storable("\n".join(unique))[:LONGEST_TEXT]


async def search_verdicts(
    db: AsyncConnection, words: str, *, all_words: bool = True, limit: int = 20, but: str = ""
) -> list[Match]:
    """Sessions whose title or verdict has these words, best match first.

    Args:
        all_words: Every word must occur; otherwise one is enough.
        but: A session that is not returned: the one that asks.
    """
    terms = list(dict.fromkeys(_WORD.findall(storable(words).lower())))[:MOST_WORDS]
    if not terms:
        return []
    question = _sqlite(terms, all_words) if db.dialect.name == "sqlite" else _postgresql(terms, all_words)
    found = (await db.execute(question, {"but": but, "most": limit})).all()
    return [
        Match(session=await session_rows.find(db, row.session_id), snippet=_parsed(row.snippet or "")) for row in found
    ]


def _sqlite(terms: Sequence[str], all_words: bool) -> sa.TextClause:
    # Quoted, so that no word is taken for an operator.
    query = (" AND " if all_words else " OR ").join(f'"{term}"' for term in terms)
    return sa.text(
        "SELECT p.session_id, snippet(past_sessions_fts, 0, char(2), char(3), ' … ', 40) AS snippet "
        "FROM past_sessions_fts JOIN past_sessions p ON p.id = past_sessions_fts.rowid "
        "WHERE past_sessions_fts MATCH :query AND p.session_id != :but ORDER BY bm25(past_sessions_fts), p.id DESC "
        "LIMIT :most"
    ).bindparams(query=query)


def _postgresql(terms: Sequence[str], all_words: bool) -> sa.TextClause:
    # A word that `plainto_tsquery` leaves out, e.g. "the", restricts nothing.
    each = (" && " if all_words else " || ").join(
        f"plainto_tsquery('english', :word{number})" for number in range(len(terms))
    )
    options = 'StartSel=\x02, StopSel=\x03, MaxWords=40, MinWords=15, MaxFragments=2, FragmentDelimiter=" … "'
    return sa.text(
        f"WITH asked AS (SELECT {each} AS query), best AS ("
        "SELECT p.id, p.session_id, p.text, ts_rank(to_tsvector('english', p.text), query) AS score, query "
        "FROM past_sessions p, asked WHERE to_tsvector('english', p.text) @@ query AND p.session_id != :but "
        "ORDER BY score DESC, p.id DESC LIMIT :most) "
        "SELECT session_id, ts_headline('english', text, query, :options) AS snippet FROM best "
        "ORDER BY score DESC, id DESC"
    ).bindparams(options=options, **{f"word{number}": term for number, term in enumerate(terms)})


def _parsed(marked: str) -> Snippet:
    """A snippet without the characters around its matching words, and where those are."""
    text, ranges = "", []
    for number, part in enumerate(re.split(f"[{_OPEN}{_CLOSE}]", " ".join(marked.split()))):
        if number % 2:
            ranges.append((len(text), len(text) + len(part)))
        text += part
    return Snippet(text=text, ranges=tuple(ranges))


async def seen_before(db: AsyncConnection, session: Session, *, limit: int = 5) -> SeenBefore:
    """Earlier sessions with the alert's fingerprint, or with its type and the same affected service."""
    service = str((session.verdict or {}).get("service") or "")
    alike = [sessions.c.fingerprint == session.fingerprint] if session.fingerprint else []
    if service:
        alike.append((sessions.c.alert_type == session.alert_type) & (past_sessions.c.service == service))
    if not alike:
        return SeenBefore(count=0)
    earlier = (sessions.c.created_at < session.created_at) & (sessions.c.id != session.id)
    joined = sessions.join(past_sessions, past_sessions.c.session_id == sessions.c.id)
    chosen = sa.select(sessions).select_from(joined).where(earlier, sa.or_(*alike))
    count = int(await db.scalar(sa.select(sa.func.count()).select_from(chosen.subquery())) or 0)
    latest = chosen.order_by(sessions.c.created_at.desc(), sessions.c.id.desc()).limit(limit)
    return SeenBefore(count=count, latest=[session_rows.from_row(row) for row in await db.execute(latest)])
