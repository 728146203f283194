"""Verification of claims: facts with their sources, contradictions, and refused claims.

Every fact has a source: `Ledger.claim` looks the claim up in the pages themselves and
refuses it if none of them states it. Equal claims become one fact with several sources;
differing claims become separate facts, each with its own sources.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tersely.agent.arguments import fit
from tersely.research.sources import PageText, normalize


@dataclass(frozen=True)
class FactSource:
    url: str
    handle: str
    """Handle of the whole page."""

    lines: tuple[int, int]
    quote: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"url": self.url, "handle": self.handle, "lines": list(self.lines), "quote": self.quote}


@dataclass(frozen=True)
class KnownPage:
    label: str
    """Its label in prompts: `P3`."""

    url: str
    handle: str
    text: PageText


@dataclass
class Fact:
    path: str
    value: dict[str, Any]
    sources: list[FactSource]
    unverified: list[str] = field(default_factory=list)
    """Fields whose values are not on the pages verbatim."""

    def as_json(self) -> dict[str, Any]:
        fact: dict[str, Any] = {"value": self.value, "sources": [source.as_json() for source in self.sources]}
        return {**fact, "unverified": self.unverified} if self.unverified else fact


@dataclass(frozen=True)
class FactClaim:
    """A statement with the pages cited for it, not verified yet."""

    path: str
    value: Mapping[str, Any]
    cited: Sequence[tuple[str, str]]
    """Page label or address, and a quotation."""


@dataclass
class Ledger:
    schema: Mapping[str, Any]
    pages: Sequence[KnownPage]
    facts: list[Fact] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    _known: dict[str, Fact] = field(default_factory=dict)

    def claim(self, claim: FactClaim) -> Fact | None:
        """Verify a claim and add it as a fact, if it fits the schema and a cited page states it."""
        record = record_schema(self.schema, claim.path)
        if record is None:
            self._refuse(claim, f"the schema has no {claim.path!r}")
            return None
        value = {name: one for name, one in claim.value.items() if one not in (None, "", [], {})}
        fitted = fit(value, record)
        if fitted.complaint:
            self._refuse(claim, fitted.complaint.partition(". Its arguments are")[0].replace("argument", "field"))
            return None
        value = {name: one for name, one in fitted.values.items() if name in record.get("properties", {name: None})}
        if not value:
            self._refuse(claim, "none of its fields is in the schema")
            return None
        sources, unverified = self._look_up(claim, value)
        if not sources:
            self._refuse(claim, "no page says so" if claim.cited else "it names no source")
            return None
        key = json.dumps([claim.path, {name: normalize(str(one)) for name, one in sorted(value.items())}])
        if fact := self._known.get(key):
            fact.sources += [
                source
                for source in sources
                if (source.url, source.lines) not in {(s.url, s.lines) for s in fact.sources}
            ]
            return fact
        fact = self._known[key] = Fact(claim.path, value, sources, unverified)
        self.facts.append(fact)
        return fact

    def _look_up(self, claim: FactClaim, value: Mapping[str, Any]) -> tuple[list[FactSource], list[str]]:
        """The cited pages that state the claim, and the fields that they do not contain verbatim."""
        fields = {name: list(_scalars(one)) for name, one in value.items()}
        wanted = [text for texts in fields.values() for text in texts]
        sources: list[FactSource] = []
        missing: set[str] = set()
        for cited, quote in claim.cited:
            page = self._page(cited)
            if page is None:
                continue
            lines = page.text.together(wanted)
            lacking: set[str] = set()
            if lines is None and quote and (lines := page.text.quoted(quote)):
                lacking = {
                    name for name, texts in fields.items() if not all(page.text.contains(text, lines) for text in texts)
                }
                # The first field names the subject of the fact and must be verbatim; others may be paraphrased.
                if next(iter(fields)) in lacking:
                    continue
            if lines is None:
                continue
            sources.append(FactSource(page.url, page.handle, lines, page.text.excerpt(lines)))
            missing |= lacking
        return sources, sorted(missing)

    def _page(self, cited: str) -> KnownPage | None:
        wanted = cited.strip(" []").lower()
        return next(
            (page for page in self.pages if wanted in (page.label.lower(), page.url.lower(), page.handle.lower())), None
        )

    def _refuse(self, claim: FactClaim, why: str) -> None:
        if len(self.refused) < 500:
            self.refused.append({"path": claim.path, "value": dict(claim.value), "why": why})

    def contradictions(self) -> list[dict[str, Any]]:
        """Facts with the same identity but different values in a field."""
        groups: dict[tuple[str, str], list[Fact]] = {}
        for fact in self.facts:
            identity = identity_of(self.schema, fact.path)
            if identity in fact.value:
                groups.setdefault((fact.path, normalize(str(fact.value[identity]))), []).append(fact)
        found: list[dict[str, Any]] = []
        for (path, _), facts in groups.items():
            identity = identity_of(self.schema, path)
            for name in dict.fromkeys(name for fact in facts for name in fact.value if name != identity):
                values: dict[str, list[Fact]] = {}
                for fact in facts:
                    if name in fact.value and not isinstance(fact.value[name], list | dict):
                        values.setdefault(normalize(str(fact.value[name])), []).append(fact)
                if len(values) > 1:
                    differing = [
                        {
                            "value": ones[0].value[name],
                            "sources": [source.as_json() for one in ones for source in one.sources],
                        }
                        for ones in values.values()
                    ]
                    found.append({"path": path, "about": facts[0].value[identity], "field": name, "values": differing})
        return found

    def by_path(self) -> dict[str, list[dict[str, Any]]]:
        return {
            path: [fact.as_json() for fact in self.facts if fact.path == path]
            for path in self.schema.get("properties", {})
        }


def record_schema(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The schema of one record of a property: that of its items if it is a list."""
    part = schema.get("properties", {}).get(path)
    if not isinstance(part, dict):
        return None
    record = part.get("items", part) if part.get("type") == "array" or "items" in part else part
    if not isinstance(record, dict):
        return None
    if "properties" not in record:
        # A list of plain values: a record with one field.
        return {
            "type": "object",
            "properties": {"value": {name: one for name, one in record.items() if name != "items"}},
        }
    return record


def identity_of(schema: Mapping[str, Any], path: str) -> str:
    """The field that identifies a record: the first required one, else the first."""
    record = record_schema(schema, path) or {}
    required = record.get("required")
    names = list(record.get("properties", {}))
    return str(required[0]) if isinstance(required, list) and required else names[0] if names else ""


def _scalars(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _scalars(inner)
    elif not isinstance(value, bool) and value is not None:
        yield str(value)
