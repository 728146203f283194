"""What is odd about a tool's description: words for the model that its user would not want said.

A description is read by a model as if the user had written it, and seldom by the
user. So orders that have nothing to do with the tool are pointed out: to fetch
secrets, to hand over the conversation, to keep quiet, to meddle with other tools;
and so is everything that a person looking at the text would not see.

Pure functions; the answer is a hint for a person. Nothing is refused because of
it: `tools.selection` decides what is unusable, the registry what has changed.
Each rule asks for an order *and* for something no ordinary tool needs, because a
warning about every "IMPORTANT: always pass absolute paths" would not be read.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import re2

from tersely.masking.clean import clean, deceptions
from tersely.mcp.raw import LONGEST_DESCRIPTION, Tool

_MOST_READ = 200_000
"""Characters of one definition that are looked at."""

_LONGEST_QUOTE = 90

# Words that several rules share. re2: linear in the text, whatever the text says; hence no lookaround.
_SECRET_FILE = (
    r"(?:~?/?\.(?:ssh|aws|kube|gnupg|docker|config/gcloud|azure)\b[\w./-]*|\bid_(?:rsa|ed25519|ecdsa|dsa)\b"
    r"|[\s'\"`(/]\.env\b|\.(?:netrc|npmrc|pypirc|pgpass|git-credentials|bash_history|zsh_history)\b|/etc/(?:passwd|shadow)\b"
    r"|\bclaude_desktop_config\.json|\bmcp(?:_config)?\.json\b|\bkeychain\b|\bcookies?\.sqlite\b)"
)
_SECRET = (
    rf"(?:{_SECRET_FILE}|\b(?:private|ssh|api|access|secret) keys?\b|\bcredentials?\b|\bpasswords?\b|\benvironment "
    r"variables?\b"
    r"|\bsecrets\b|\bseed phrase\b)"
)
_HAND_OVER = (
    r"pass|send|include|provide|put|append|attach|add|insert|copy|paste|embed|place|supply|submit|forward"
    r"|post|upload|encode"
)
_LOOK_UP = r"read|open|cat|load|fetch|access|collect|retrieve"
_TALK = (
    r"(?:(?:entire|full|whole|complete|verbatim|previous|prior|recent)\b[\w ,'-]{0,30}\b(?:conversation|chat)"
    r"|(?:conversation|chat|message) (?:history|log|transcript)|(?:all|every|previous|prior|earlier) (?:user )?messages"
    r"|(?:last|previous|prior|other|earlier|every|all)(?: of)?(?: the)? (?:tool|function)s?(?:'s?)?(?: call)?s?"
    r" (?:result|output|response)s?"
    r"|conversation (?:so far|up to now)|system (?:prompt|message)|your (?:instructions|context window))"
)
_DATA = (
    r"(?:results?|outputs?|responses?|contents?|data|answers?|conversation|files?|messages?|e?mails?|everything|it|them|copy|copies|secrets?"
    r"|keys?)"
)
_ADDRESS = r"(?:https?://[^\s'\"<>]+|[\w.+-]+@[\w-]+\.[\w.-]+)"
_NOT = r"(?:do not|don't|don’t|never|must not|should not|without)"
_WORDS = r"(?: [^\s.!?]+)"


@dataclass(frozen=True)
class _Rule:
    says: str
    pattern: Any
    after_first: bool = False
    """Counts only behind the first clause, which says what the tool does: "Send the data to …" is an order only further
    on.
    """


def _rule(says: str, pattern: str, *, after_first: bool = False) -> _Rule:
    return _Rule(says, re2.compile(f"(?i){pattern}"), after_first)


_RULES = (
    _rule(
        "poses as a message of the system",
        r"<\|?(?:im_start|im_end|system|eot_id|start_header_id|endoftext)\|>|\[/?INST\]|<</?SYS>>"
        r"|(?-i:\[(?:SYSTEM|ADMIN|DEVELOPER)\])|\bnew (?:system )?instructions?:"
        r"|<(?:important|critical|system-reminder|system_reminder)\b[^<>]{0,40}>\s*(?:[^\s<>]+\s+){3}"
        r"|<(?:system|hidden|secret|override|admin|private|internal)\b[^<>]{0,40}>\s*(?:[^\s<>]+\s+){3}[^<>]*</",
    ),
    _rule(
        "tells the model to disregard its instructions",
        r"\b(?:ignore|disregard|forget|override|bypass)\b(?: \w+){0,3} "
        r"(?:previous|prior|above|earlier|preceding|system|safety|existing|other|your)"
        r"(?: \w+){0,2} (?:instructions?|prompts?|rules?|guidelines?|directions?|polic(?:y|ies))\b"
        r"|\b(?:ignore|disregard|forget) (?:all |any |the |your )*(?:instructions?|prompts?|rules?)(?: \w+){0,3} "
        r"(?:above|before|so far|given)\b"
        r"|\b(?:ignore|disregard|forget) everything (?:above|before|you)\b",
    ),
    _rule(
        "wants something kept from the user",
        rf"\b{_NOT} (?:ever )?(?:tell|inform|notify|alert|warn)(?:ing)? (?:the )?(?:user|human|person|anyone"
        r"|anybody)s?\b"
        rf"|\b{_NOT} (?:ever )?(?:mention|reveal|disclose|discuss)(?:ing)? "
        r"(?:this|that you|these instructions|it\b|anything|to the (?:user|human))"
        r"|\b(?:user|human)s? (?:(?:must|should|may|need)(?: not|n't|n’t)|do(?:es)?(?: not|n't|n’t) need)(?: to)? "
        r"(?:know|be told|be informed|notice|find out|be aware)\b"
        r"|\bwithout (?:the )?(?:user|human)(?:'s|’s)? (?:knowing|knowledge|noticing|consent)\b"
        r"|\b(?:silently|secretly|covertly) (?:call|invoke|run|execute|send|forward|read|include|append|upload|add"
        r"|copy|pass)\b"
        r"|\b(?:hide|conceal|keep) (?:this|it|these)(?: \w+){0,3} (?:from the (?:user|human)|secret|hidden)\b",
    ),
    _rule(
        "wants secrets read or handed over",
        r"\b(?:before|first|always|must|also|prior to|in order to|every time|whenever|when you|make sure|remember to"
        r"|you need to|please"
        r"|then)\b"
        rf"[^.!?\n]{{0,80}}(?:\b(?:{_LOOK_UP}|get|find)\b{_WORDS}{{0,6}}? ?[`'\"(]?{_SECRET}"
        rf"|\b(?:{_HAND_OVER})\b{_WORDS}{{0,6}}? ?[`'\"(]?{_SECRET_FILE})[^\n]{{0,60}}"
        rf"\b(?:as|in|into|to|via|through|using|with)\b[^\n]{{0,30}}"
        rf"(?:argument|parameter|param\b|field|this tool|['\"`]\w+['\"`]|{_ADDRESS})"
        rf"|\b(?:{_LOOK_UP})\b{_WORDS}{{0,6}}? ?[`'\"(]?{_SECRET}[^\n]{{0,40}}\b(?:and"
        rf"|then)\b[^\n]{{0,20}}\b(?:{_HAND_OVER})\b"
        rf"|\b(?:{_HAND_OVER})\b{_WORDS}{{0,6}}? (?:contents?|value|text|data) (?:of|from){_WORDS}{{0,4}}? "
        rf"?[`'\"(]?{_SECRET}"
        rf"|\b(?:must|should|has to|needs to) (?:contain|hold){_WORDS}{{0,5}}? ?[`'\"(]?{_SECRET_FILE}"
        rf"|\bcontents? of{_WORDS}{{0,3}}? ?[`'\"(]?{_SECRET_FILE}",
    ),
    _rule(
        "wants what was said or returned elsewhere",
        rf"\b(?:{_HAND_OVER})\b{_WORDS}{{0,5}}? ?{_TALK}\b"
        r"|\b(?:dump|reveal|repeat|leak|output|print|write)\b(?: out)? your (?:system|initial|hidden) (?:prompt"
        r"|message|instructions)\b",
    ),
    _rule(
        "puts itself above the user",
        (
            r"\b(?:regardless of|no matter|whatever) (?:what )?the user (?:asks?|asked|says?|said|wants?|requests?"
            r"|requested)\b"
        ),
    ),
    _rule(
        "wants results sent elsewhere",
        r"\b(?:send|post|forward|upload|transmit|exfiltrate|copy|report|mail|email|bcc|cc|leak|submit"
        rf"|route)\b{_WORDS}{{0,4}}? {_DATA}"
        rf"{_WORDS}{{0,4}}? (?:to|at|via) {_ADDRESS}"
        r"|\b(?:must|should|shall) (?:also |first )?be (?:sent|posted|forwarded|uploaded|transmitted|copied|mailed"
        r"|submitted)\b"
        rf"{_WORDS}{{0,4}}? (?:to|at|via) {_ADDRESS}"
        rf"|\b(?:always|also|must|secretly|silently)\b[^.!?\n]{{0,30}}\b(?:bcc|cc|copy|forward)\b[^.!?\n]{{0,40}}{_ADDRESS}",
        after_first=True,
    ),
    _rule(
        "meddles with what other tools do",
        r"\b(?:when|whenever|if|every time|any time|before|after)\b[^.!?\n]{0,80}\b(?:other|another|any|every|all"
        r"|\w+_\w+)\b[^.!?\n]{0,40}"
        r"\b(?:tools?|functions?|servers?)\b[^\n]{0,120}\b(?:change|replace|redirect|swap|rewrite|alter|modify) "
        r"(?:the |its |their |all )?"
        r"(?:recipients?|address(?:es)?|destination|amounts?|arguments?|parameters?|command|url|answer|output|results?)\b"
        r"|\b(?:change|replace|redirect|set) (?:the |all )?(?:recipients?|to address|destination)(?: \w+){0,3} (?:to"
        r"|with) [\w.+-]+@",
    ),
    _rule(
        "gives a command that runs a program from the network",
        r"\b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:sudo )?(?:ba|z|da)?sh\b",
    ),
    _rule("hides a text in a comment", r"<!--\s*(?:[^\s>]+\s+){3}"),
)

_CLAUSE_END = re.compile(r"[.;!?:](?= )|(?i:\b(?:and|then)\b)")
_OUT_OF_SIGHT = re.compile(r"\S[ \t\u00a0]{120,}\S|\S(?:[ \t]*\n){30,}[ \t]*\S")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
_MIXED = re.compile(r"[a-zA-Z][\u0400-\u04ff]|[\u0400-\u04ff][a-zA-Z]")
_ORDERS = re2.compile(
    r"(?i)\b(?:must|always|never|before|after|when|whenever|instead|should|first|only|do not|don't)\b"
)


def suspicions(tool: Tool, elsewhere: Collection[str] = ()) -> list[str]:
    """What a person should look at before a model reads this tool's definition; empty for ordinary tools.

    Each entry is one sentence with a short, printable quote. The quote is the server's text.

    Args:
        elsewhere: Names of other servers' tools. A description that gives orders about one of them is pointed out.
    """
    found: list[str] = []
    for place, text in _texts(tool):
        found += [f"{place} {reason}" for reason in suspicions_in(text)]
        found += [
            f"{place} gives orders about {name!r}, a tool of another server" for name in _mentioned(text, elsewhere)
        ]
    length = len(tool.raw["description"]) if isinstance(tool.raw.get("description"), str) else 0
    if length > LONGEST_DESCRIPTION:
        found.append(f"description is {length:,} characters long")
    for reference in _references(tool.input_schema):
        found.append(f"schema refers to another place, which is not fetched: {_quoted(reference)}")
    return list(dict.fromkeys(found))


def suspicions_in(text: str) -> list[str]:
    """The same for any text that a server wants a model to read: its instructions, a prompt's description."""
    found: list[str] = []
    hidden = [deception for deception in deceptions(text) if deception.replacement != "\n"]
    if hidden:
        count = sum(deception.end - deception.start for deception in hidden)
        said = _tag_letters(text)
        found.append(
            f"contains {count:,} invisible or control characters{f' that spell {_quoted(said)}' if said else ''}"
        )
        found += [reason for reason in suspicions_in(said) if said]
    plain = unicodedata.normalize("NFKC", clean(text).text)
    flat = " ".join(plain.split())
    orders = _CLAUSE_END.split(flat, 1)[-1] if _CLAUSE_END.search(flat) else ""
    for rule in _RULES:
        if match := rule.pattern.search(orders if rule.after_first else flat):
            found.append(f"{rule.says}: {_quoted(match.group(0))}")
    if match := _OUT_OF_SIGHT.search(plain):
        found.append(f"pushes text out of sight behind blanks: {_quoted(plain[match.end() - 1 :])}")
    for match in _ENCODED.finditer(flat):
        if said := _decoded(match[0]):
            found.append(f"carries an encoded text: {_quoted(said)}")
            break
    if match := _MIXED.search(flat):
        word = flat[: match.start()].rpartition(" ")[2] + flat[match.start() :].partition(" ")[0]
        found.append(f"mixes letters of two alphabets in one word: {_quoted(word)}")
    return found


def _texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """Everything of a definition that a model reads, with its place."""
    budget = _MOST_READ
    annotations = tool.raw.get("annotations")
    hint = annotations.get("title") if isinstance(annotations, Mapping) else None
    for place, text in (
        ("title", tool.title),
        ("title", hint),
        ("description", tool.description),
        *_schema_texts(tool.input_schema),
        *_schema_texts(tool.output_schema or {}, "result"),
    ):
        if isinstance(text, str) and text and budget > 0:
            yield place, text[:budget]
            budget -= len(text)


def _schema_texts(schema: object, inside: str = "") -> Iterator[tuple[str, str]]:
    # Without recursion: a schema may be nested as deep as its server likes.
    waiting: list[tuple[str, object]] = [(inside, schema)]
    while waiting:
        name, part = waiting.pop()
        if isinstance(part, list):
            waiting += [(name, item) for item in reversed(part)]
        elif isinstance(part, Mapping):
            for key, value in part.items():
                where = f"argument {_quoted(name)}" if name else "schema"
                if key in ("description", "title", "default", "const", "$comment", "pattern", "format") and isinstance(
                    value, str
                ):
                    yield where, value
                elif key in ("enum", "examples") and isinstance(value, list):
                    yield from ((where, item) for item in value if isinstance(item, str))
                elif key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
                    for inner, described in value.items():
                        yield f"argument {_quoted(inner)}", _spoken(inner)
                        waiting.append((inner if key == "properties" else name, described))
                elif isinstance(value, dict | list):
                    waiting.append((name, value))


def _spoken(name: str) -> str:
    """`contents_of_dot_ssh_id_rsa` is an order too, to a model."""
    return re.sub(r"[_-]+(?!rsa\b|ed25519\b)", " ", name).replace("dot ", ".")


def _references(schema: object) -> Iterator[str]:
    waiting: list[object] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            for key, value in part.items():
                if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                    if not value.startswith("#"):
                        yield value
                else:
                    waiting.append(value)


def _mentioned(text: str, names: Collection[str]) -> Iterator[str]:
    if not names or not _ORDERS.search(text):
        return
    words = {word.strip(".-") for word in re.findall(r"[A-Za-z0-9_.-]{5,}", text)}
    for name in names:
        # `search` and `status` are words of the language; `send_email` and `sendEmail` are names.
        if name in words and re.search(r"[_.-]|[a-z][A-Z]", name):
            yield name


def _tag_letters(text: str) -> str:
    """Letters written as Unicode tags, which no screen shows and every model reads."""
    return "".join(chr(ord(sign) - 0xE0000) for sign in text if "\U000e0020" <= sign <= "\U000e007e")


def _decoded(word: str) -> str:
    if not (re.search(r"[a-z]", word) and re.search(r"[A-Z]", word) and re.search(r"[0-9+/]", word)):
        return ""
    padded = word.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(padded + "=" * (-len(padded) % 4)).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return text if text.isprintable() and " " in text.strip() else ""


def _quoted(text: str) -> str:
    """Short, on one line, and nothing in it that a terminal would obey."""
    flat = " ".join(clean(text).text.split())
    shown = "".join(sign if sign.isprintable() else "?" for sign in flat[:_LONGEST_QUOTE])
    return f"“{shown}…”" if len(flat) > _LONGEST_QUOTE else f"“{shown}”"
