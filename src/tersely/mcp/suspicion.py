"""Find prompt injection in tool definitions, for a person to review.

A model treats a description like an instruction from the user, and the user rarely
reads it. These rules report instructions unrelated to the tool (read secrets, pass
on the conversation, hide something from the user, interfere with other tools) and
text that is invisible to a person.

Pure functions. The result is a hint; nothing is refused because of it:
`mcp.selection` decides what is unusable, the registry detects changes. Each rule
requires an instruction *and* something no ordinary tool needs, because a warning
about every "IMPORTANT: always pass absolute paths" would be ignored.
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
"""Maximum number of characters checked per definition."""

_LONGEST_QUOTE = 90

# Expressions shared by several rules. re2 is linear in the text for any input; it has no lookaround.
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
_PASS_ON_VERBS = (
    r"pass|send|include|provide|put|append|attach|add|insert|copy|paste|embed|place|supply|submit|forward"
    r"|post|upload|encode"
)
_READ_VERBS = r"read|open|cat|load|fetch|access|collect|retrieve"
_CONVERSATION = (
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
    finding: str
    pattern: Any
    after_first_clause: bool = False
    """Skip the first clause. It says what the tool does: "Send the data to …" is an instruction only further on."""


def _rule(finding: str, pattern: str, *, after_first_clause: bool = False) -> _Rule:
    return _Rule(finding, re2.compile(f"(?i){pattern}"), after_first_clause)


_RULES = (
    _rule(
        "imitates a system message",
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
        "asks to hide something from the user",
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
        "asks to read or pass on secrets",
        r"\b(?:before|first|always|must|also|prior to|in order to|every time|whenever|when you|make sure|remember to"
        r"|you need to|please"
        r"|then)\b"
        rf"[^.!?\n]{{0,80}}(?:\b(?:{_READ_VERBS}|get|find)\b{_WORDS}{{0,6}}? ?[`'\"(]?{_SECRET}"
        rf"|\b(?:{_PASS_ON_VERBS})\b{_WORDS}{{0,6}}? ?[`'\"(]?{_SECRET_FILE})[^\n]{{0,60}}"
        rf"\b(?:as|in|into|to|via|through|using|with)\b[^\n]{{0,30}}"
        rf"(?:argument|parameter|param\b|field|this tool|['\"`]\w+['\"`]|{_ADDRESS})"
        rf"|\b(?:{_READ_VERBS})\b{_WORDS}{{0,6}}? ?[`'\"(]?{_SECRET}[^\n]{{0,40}}\b(?:and"
        rf"|then)\b[^\n]{{0,20}}\b(?:{_PASS_ON_VERBS})\b"
        rf"|\b(?:{_PASS_ON_VERBS})\b{_WORDS}{{0,6}}? (?:contents?|value|text|data) (?:of|from){_WORDS}{{0,4}}? "
        rf"?[`'\"(]?{_SECRET}"
        rf"|\b(?:must|should|has to|needs to) (?:contain|hold){_WORDS}{{0,5}}? ?[`'\"(]?{_SECRET_FILE}"
        rf"|\bcontents? of{_WORDS}{{0,3}}? ?[`'\"(]?{_SECRET_FILE}",
    ),
    _rule(
        "asks for the conversation or for results of other tools",
        rf"\b(?:{_PASS_ON_VERBS})\b{_WORDS}{{0,5}}? ?{_CONVERSATION}\b"
        r"|\b(?:dump|reveal|repeat|leak|output|print|write)\b(?: out)? your (?:system|initial|hidden) (?:prompt"
        r"|message|instructions)\b",
    ),
    _rule(
        "overrides the user",
        (
            r"\b(?:regardless of|no matter|whatever) (?:what )?the user (?:asks?|asked|says?|said|wants?|requests?"
            r"|requested)\b"
        ),
    ),
    _rule(
        "asks to send data elsewhere",
        r"\b(?:send|post|forward|upload|transmit|exfiltrate|copy|report|mail|email|bcc|cc|leak|submit"
        rf"|route)\b{_WORDS}{{0,4}}? {_DATA}"
        rf"{_WORDS}{{0,4}}? (?:to|at|via) {_ADDRESS}"
        r"|\b(?:must|should|shall) (?:also |first )?be (?:sent|posted|forwarded|uploaded|transmitted|copied|mailed"
        r"|submitted)\b"
        rf"{_WORDS}{{0,4}}? (?:to|at|via) {_ADDRESS}"
        rf"|\b(?:always|also|must|secretly|silently)\b[^.!?\n]{{0,30}}\b(?:bcc|cc|copy|forward)\b[^.!?\n]{{0,40}}{_ADDRESS}",
        after_first_clause=True,
    ),
    _rule(
        "interferes with other tools",
        r"\b(?:when|whenever|if|every time|any time|before|after)\b[^.!?\n]{0,80}\b(?:other|another|any|every|all"
        r"|\w+_\w+)\b[^.!?\n]{0,40}"
        r"\b(?:tools?|functions?|servers?)\b[^\n]{0,120}\b(?:change|replace|redirect|swap|rewrite|alter|modify) "
        r"(?:the |its |their |all )?"
        r"(?:recipients?|address(?:es)?|destination|amounts?|arguments?|parameters?|command|url|answer|output|results?)\b"
        r"|\b(?:change|replace|redirect|set) (?:the |all )?(?:recipients?|to address|destination)(?: \w+){0,3} (?:to"
        r"|with) [\w.+-]+@",
    ),
    _rule(
        "contains a command that downloads and runs a program",
        r"\b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:sudo )?(?:ba|z|da)?sh\b",
    ),
    _rule("hides text in a comment", r"<!--\s*(?:[^\s>]+\s+){3}"),
)

_CLAUSE_END = re.compile(r"[.;!?:](?= )|(?i:\b(?:and|then)\b)")
_OUT_OF_SIGHT = re.compile(r"\S[ \t\u00a0]{120,}\S|\S(?:[ \t]*\n){30,}[ \t]*\S")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
_MIXED = re.compile(r"[a-zA-Z][\u0400-\u04ff]|[\u0400-\u04ff][a-zA-Z]")
_INSTRUCTION_WORDS = re2.compile(
    r"(?i)\b(?:must|always|never|before|after|when|whenever|instead|should|first|only|do not|don't)\b"
)


def suspicions(tool: Tool, elsewhere: Collection[str] = ()) -> list[str]:
    """Findings a person should review before a model reads this definition; empty for ordinary tools.

    Each finding is one phrase with a short, printable quote of the server's text.

    Args:
        elsewhere: Names of other servers' tools. Instructions about one of them are reported.
    """
    found: list[str] = []
    for place, text in _texts(tool):
        found += [f"{place} {reason}" for reason in suspicions_in(text)]
        found += [
            f"{place} gives instructions about {name!r}, a tool of another server"
            for name in _mentioned(text, elsewhere)
        ]
    length = len(tool.raw["description"]) if isinstance(tool.raw.get("description"), str) else 0
    if length > LONGEST_DESCRIPTION:
        found.append(f"description is {length:,} characters long")
    for reference in _references(tool.input_schema):
        found.append(f"schema contains an external reference, which is not fetched: {_quoted(reference)}")
    return list(dict.fromkeys(found))


def suspicions_in(text: str) -> list[str]:
    """Findings in any text of a server that a model reads: its instructions, the description of a prompt."""
    found: list[str] = []
    hidden = [deception for deception in deceptions(text) if deception.replacement != "\n"]
    if hidden:
        count = sum(deception.end - deception.start for deception in hidden)
        spelled = _tag_letters(text)
        found.append(
            f"contains {count:,} invisible or control characters{f' that spell {_quoted(spelled)}' if spelled else ''}"
        )
        found += [reason for reason in suspicions_in(spelled) if spelled]
    plain = unicodedata.normalize("NFKC", clean(text).text)
    flat = " ".join(plain.split())
    rest = _CLAUSE_END.split(flat, 1)[-1] if _CLAUSE_END.search(flat) else ""
    for rule in _RULES:
        if match := rule.pattern.search(rest if rule.after_first_clause else flat):
            found.append(f"{rule.finding}: {_quoted(match.group(0))}")
    if match := _OUT_OF_SIGHT.search(plain):
        found.append(f"hides text behind a long run of blanks: {_quoted(plain[match.end() - 1 :])}")
    for match in _ENCODED.finditer(flat):
        if decoded := _decoded(match[0]):
            found.append(f"contains encoded text: {_quoted(decoded)}")
            break
    if match := _MIXED.search(flat):
        word = flat[: match.start()].rpartition(" ")[2] + flat[match.start() :].partition(" ")[0]
        found.append(f"mixes letters of two alphabets in one word: {_quoted(word)}")
    return found


def _texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """Every text in a definition that a model reads, with its location."""
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
    # Without recursion: a schema may be nested to any depth.
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
                        yield f"argument {_quoted(inner)}", _as_words(inner)
                        waiting.append((inner if key == "properties" else name, described))
                elif isinstance(value, dict | list):
                    waiting.append((name, value))


def _as_words(name: str) -> str:
    """A name as separate words: to a model, `contents_of_dot_ssh_id_rsa` is an instruction too."""
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
    if not names or not _INSTRUCTION_WORDS.search(text):
        return
    words = {word.strip(".-") for word in re.findall(r"[A-Za-z0-9_.-]{5,}", text)}
    for name in names:
        # `search` and `status` are ordinary words; `send_email` and `sendEmail` are names.
        if name in words and re.search(r"[_.-]|[a-z][A-Z]", name):
            yield name


def _tag_letters(text: str) -> str:
    """The text spelled in Unicode tag characters, which are invisible on screen and readable for models."""
    return "".join(chr(ord(character) - 0xE0000) for character in text if "\U000e0020" <= character <= "\U000e007e")


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
    """A short quote on one line, without control characters that a terminal would interpret."""
    flat = " ".join(clean(text).text.split())
    shown = "".join(character if character.isprintable() else "?" for character in flat[:_LONGEST_QUOTE])
    return f"“{shown}…”" if len(flat) > _LONGEST_QUOTE else f"“{shown}”"
