"""What is to be researched: a subject, its topics, and the schema of the facts that are wanted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tersely.errors import InputError
from tersely.research.options import ResearchOptions
from tersely.sessions.chains import StageOptions

MOST_TOPICS = 60
LARGEST_SCHEMA = 40_000


@dataclass(frozen=True)
class Topic:
    name: str
    """Short; what the timeline calls it."""

    about: str
    """What is to be found out."""


@dataclass(frozen=True, kw_only=True)
class ResearchRequest:
    subject: str
    topics: tuple[Topic, ...]
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of an object whose properties are lists of records; empty: passages only."""

    options: ResearchOptions = field(default_factory=ResearchOptions)

    @property
    def pages_per_topic(self) -> int:
        return max(1, self.options.pages // len(self.topics))

    @property
    def tokens_per_topic(self) -> int:
        return self.options.tokens // len(self.topics)

    def hint(self, topic: Topic) -> str:
        """What matters in a page of this topic, for whoever shortens it: the topic, then everything that the schema
        asks for.
        """
        # No question: its answer would be one sentence, and what is wanted is everything that is stated.
        about = topic.about.replace("?", ".").strip(" .")
        wanted = wishes(self.schema) or "names, dates, numbers, events"
        return f"Extract facts: {wanted}. Topic: {self.subject}, {about}."


class _Sent(BaseModel):
    """The data of an alert of kind `research`, as somebody sent it."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    subject: Annotated[str, Field(min_length=1, max_length=500)]
    topics: Annotated[dict[str, str], Field(max_length=MOST_TOPICS)] = {}
    wanted: Annotated[dict[str, Any], Field(alias="schema")] = {}
    options: dict[str, Any] = {}

    @field_validator("topics", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, list):
            return {str(one)[:80]: one for one in value}
        return value

    @field_validator("wanted")
    @classmethod
    def _is_a_schema(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value:
            check_schema(value)
        return value


def check_schema(schema: Mapping[str, Any]) -> None:
    """
    Raises:
        ValueError: It is not the schema of an object with properties.
    """
    if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        raise ValueError(
            'must be a JSON schema of an object with properties, e.g. {"properties": {"people": {"type": "array", …}}}'
        )
    if len(json.dumps(schema)) > LARGEST_SCHEMA:
        raise ValueError(f"is longer than {LARGEST_SCHEMA:,} characters; describe the fields in fewer words")


def request_of(data: str, stages: Sequence[StageOptions], options: ResearchOptions) -> ResearchRequest:
    """The request in an alert: a subject alone, whose topics are the chain's stages, or an object with all of it.

    Raises:
        InputError: Says what is missing or wrong.
    """
    try:
        value = json.loads(data)
    except ValueError:
        value = {"subject": data.strip()}
    try:
        sent = _Sent.model_validate(value if isinstance(value, dict) else {"subject": str(value)})
        chosen = ResearchOptions.model_validate({**options.model_dump(), **sent.options})
    except ValidationError as wrong:
        said = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}" for one in wrong.errors()
        )
        raise InputError(f"This cannot be researched: {said}.") from None
    topics = sent.topics or {stage.name: stage.task or stage.name for stage in stages}
    subject = " ".join(sent.subject.split())
    return ResearchRequest(
        subject=subject,
        topics=tuple(Topic(name, about.replace("{subject}", subject)) for name, about in topics.items()),
        schema=sent.wanted,
        options=chosen,
    )


def wishes(schema: Mapping[str, Any]) -> str:
    """A schema in words: "people (name, allegiance: whom they serve), events (name, date)"."""
    return ", ".join(_wish(name, part) for name, part in schema.get("properties", {}).items())


def _wish(name: str, schema: Any) -> str:
    if not isinstance(schema, dict):
        return name
    record = schema.get("items", schema) if schema.get("type") == "array" or "items" in schema else schema
    described = str(schema.get("description", ""))
    said = f"{name}: {described}" if described else name
    inner = record.get("properties") if isinstance(record, dict) else None
    if not isinstance(inner, dict) or not inner:
        return said
    return f"{said} ({', '.join(_wish(field, part) for field, part in inner.items())})"
