"""The few English words that the condenser knows: question words, synonyms, words of severity.

Small on purpose: a growing list would overfit to known texts. Features that separate
units should come from the text itself.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP = _words("""
    a an the of to in on at for and or is are was were be been being this that these those it its it's with from by
    as what whats what's which who whom whose why how when where did does do done there any anything all me my i you
    your we our us about have has had having not no can could should would may might must will shall please s t if
    then than so but into out up down over under more most some also re use using used only each other others via
    per their them they he she his her
""")
"""Words without a meaning of their own. "not", "over", "most" and the like are parsed as intents instead."""

ASKING = _words("""
    find show tell give look report get list check describe explain need know see want summarize summarise help
    investigate answer since between after before until question entry entries recorded record particular value
    values output overview care stand stands thing things something one ones many much here now please currently
    recently happening happened detail details information
""")
"""Words that phrase a question; a text may contain them as terms, so their weight is small but not zero."""

SYNONYMS: dict[str, tuple[str, ...]] = {
    "restart": ("crash", "backoff", "exit", "terminated", "killed"),
    "crash": ("panic", "fatal", "exit", "terminated", "killed", "backoff", "oomkilled"),
    "oom": ("oomkilled", "memory", "killed"),
    "memory": ("oom", "heap", "mem"),
    "slow": ("latency", "duration", "timeout", "seconds", "elapsed", "took"),
    "latency": ("duration", "slow", "seconds", "elapsed", "took"),
    "timeout": ("timed", "deadline"),
    "deadline": ("timeout",),
    "unhealthy": ("failed", "error", "notready", "degraded", "crashloopbackoff", "pending"),
    "healthy": ("unhealthy", "ready", "failed"),
    "ready": ("notready", "unavailable"),
    "available": ("unavailable", "ready"),
    "stuck": ("pending", "waiting", "blocked", "terminating"),
    "schedul": ("unschedulable", "insufficient", "taint", "affinity"),
    "pending": ("unschedulable", "insufficient", "waiting"),
    "start": ("waiting", "backoff", "init"),
    "disk": ("volume", "storage", "filesystem"),
    "storage": ("disk", "volume", "capacity"),
    "network": ("connection", "dns", "socket"),
    "connect": ("refused", "unreachable", "dial"),
    "login": ("auth", "authentication", "password", "signin"),
    "auth": ("login", "unauthorized", "forbidden", "token"),
    "permission": ("denied", "forbidden", "unauthorized", "rbac"),
    "certificate": ("tls", "x509", "ssl", "cert"),
    "image": ("pull", "registry"),
    "config": ("configuration", "setting", "configmap"),
    "database": ("db", "sql", "postgres", "mysql"),
    "delete": ("removed", "deleted"),
    "replica": ("desired", "ready", "available"),
    "cpu": ("throttl", "load"),
    "price": ("cost", "amount"),
    "owner": ("author", "maintainer"),
    "author": ("owner", "maintainer"),
    "created": ("date", "timestamp"),
    "size": ("bytes", "length"),
    "name": ("id",),
    "minimum": ("min",),
    "maximum": ("max",),
    "cause": ("reason", "because", "error"),
    "reason": ("because", "cause"),
    "error": ("exception", "failed", "failure"),
    "fail": ("error", "exception"),
}


_FATAL = """
    fatal panic critical emerg emergency oomkilled outofmemoryerror segfault severe catastrophic corrupt corrupted
    crashloopbackoff
"""
_ERROR = """
    error err exception traceback failed fail failure failing crash crashed killed backoff denied refused timeout
    unable cannot
    degraded unhealthy exhausted exceeded unreachable rejected invalid aborted abort notready imagepullbackoff
    errimagepull
    unschedulable evicted deadlock unavailable forbidden unauthorized broken lost disconnected overflow starvation
    stackoverflowerror oom hung stuck mismatch violates unrecoverable undefined
"""
_WARNING = """
    warn warning warnings pending expired retry retrying slow deprecated missing unexpected terminated unknown stopped
    down
    blocked delayed dropped conflict insufficient throttled interrupted skipped stale suspended alert disabled waiting
    loop bad
    problem cannot undefined leak spike overload
"""

SEVERITY: dict[str, float] = {
    **dict.fromkeys(_WARNING.split(), 1.0),
    **dict.fromkeys(_ERROR.split(), 2.0),
    **dict.fromkeys(_FATAL.split(), 3.0),
    "timed out": 2.0,
    "out of memory": 3.0,
    "not found": 1.5,
    "no such file": 2.0,
    "core dump": 2.5,
    "did not": 1.0,
    "could not": 2.0,
    "can't": 1.5,
    "couldn't": 2.0,
    "didn't": 1.0,
    "not ready": 1.5,
    "not running": 1.5,
    "permission denied": 2.5,
    "stack trace": 1.5,
    "exit code": 1.0,
    "bad gateway": 2.0,
    "shutting down": 1.0,
    "no space": 2.5,
}
"""Severity of a word or phrase: 1 warning, 2 error, 3 fatal. Lower case; a plural `s` is accepted."""
