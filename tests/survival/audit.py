"""Who wrote what, as PostgreSQL saw it: each replica signs its connections, and triggers note the signature under every
row.

So it can be shown, and not only be believed, that a process which lost a session writes
nothing for it any more. The times are the server's, whatever the replicas' clocks say.
"""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg

from tests.survival.history import Record

OURS = ("sessions", "stages", "executions", "timeline_events", "event_log", "messages", "interactions")
ENGINE = ("operation_outputs",)

_TABLE = """
CREATE TABLE IF NOT EXISTS audit (
    number bigserial PRIMARY KEY, at timestamptz, who text, place text, session text, attempt bigint, executor text
);
CREATE OR REPLACE FUNCTION audit_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE it jsonb := to_jsonb(coalesce(NEW, OLD));
BEGIN
    INSERT INTO public.audit (at, who, place, session, attempt, executor) VALUES (
        clock_timestamp(), current_setting('application_name'), TG_TABLE_NAME,
        CASE TG_TABLE_NAME WHEN 'sessions' THEN it->>'id' WHEN 'operation_outputs' THEN it->>'workflow_uuid' ELSE it->>'session_id' END,
        CASE WHEN TG_TABLE_NAME = 'sessions' THEN (it->>'attempt')::bigint END,
        CASE WHEN TG_TABLE_NAME = 'sessions' THEN it->>'executor' END
    );
    RETURN NULL;
END $$;
"""


def signed(url: str, name: str) -> str:
    """The same database, by a name that its statistics and triggers see."""
    parts = urlsplit(url)
    query = [
        *((key, value) for key, value in parse_qsl(parts.query) if key != "application_name"),
        ("application_name", name),
    ]
    return urlunsplit(parts._replace(query=urlencode(query)))


def begin(url: str) -> None:
    """Note every row from now on. The engine's tables are there once a replica has started."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)
        for schema, tables in (("public", OURS), ("dbos", ENGINE)):
            for table in tables:
                events = "INSERT OR UPDATE OR DELETE"
                connection.execute(
                    f"CREATE OR REPLACE TRIGGER audited AFTER {events} ON {schema}.{table} FOR EACH ROW EXECUTE "
                    "FUNCTION public.audit_row()"
                )


def seen(url: str) -> list[Record]:
    """Every row that was written, as `wrote` records, and the claims among them."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT number, at, who, place, session, attempt, executor FROM audit ORDER BY number"
        ).fetchall()
    found: list[Record] = []
    attempts: dict[str, int] = {}
    for number, at, who, place, session, attempt, executor in rows:
        record: dict[str, Any] = {
            "kind": "wrote",
            "at": at.timestamp(),
            "number": number,
            "who": who,
            "place": place,
            "session": session,
        }
        if place == "sessions":
            record |= {"attempt": attempt, "executor": executor}
            if executor and attempt > attempts.get(session, 0):
                found.append(
                    {
                        "kind": "claim",
                        "at": at.timestamp(),
                        "session": session,
                        "attempt": attempt,
                        "executor": executor,
                    }
                )
            attempts[session] = attempt
        found.append(record)
    return found
