"""The few words that the condenser knows: question words, synonyms, words of severity, what a superlative measures.

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
    touch touches touched affect affects affected concern concerns concerned mention mentions mentioned contain contains
    contained include includes included involve involves involved appear appears appeared occur occurs occurred happen
    happens exist exists belong belongs relate relates related relevant refer refers referred concerning regarding
    come comes came go goes went make makes made take takes taken say says said mean means meant like want wants wanted
    line lines part parts place places text anywhere somewhere everything actually exactly really still just
    let's lets could perhaps maybe able tell
""")
"""Words that phrase a question; a text may contain them as terms, so their weight is small but not zero."""

FUNCTION_WORDS: dict[str, frozenset[str]] = {
    "german": _words("""
        der die das den dem des ein eine einer eines einem einen und oder ist sind war waren hat haben hatte wird werden
        wurde wurden was wer wie wo wann warum wieso wieviel welche welcher welches welchen im am an auf aus bei mit
        nach von vor zu zum zur über unter für nicht auch es er sie wir ihr ich mir mich bitte zeige gib gibt dazu
        möchte wissen kann kannst diese dieser dieses alle
    """),
    "french": _words("""
        le la les un une des du de et ou est sont était ont a quel quelle quels quelles qui que quoi où quand comment
        pourquoi combien dans sur avec pour par au aux ce cette ces il elle nous vous ils elles je moi en ne pas plus
        montre donne sont-ils
    """),
    "spanish": _words("""
        el la los las un una unos unas del de y o es son era fue ha han cuál cuáles qué quién cómo dónde cuándo cuánto
        cuántos por en con para al se lo su no más muestra dime me está están
    """),
    "italian": _words("""
        il lo la i gli le un una di del della dei e o è sono era ha hanno quale quali chi che cosa come dove quando
        quanto quanti perché nel nella per da sul con al non più mostra dimmi
    """),
    "portuguese": _words("""
        o a os as um uma do da dos das de e ou é são era foi tem qual quais quem que como onde quando quanto quantos por
        em no na com para ao se não mais mostre
    """),
    "dutch": _words("""
        de het een en of is zijn was waren heeft hebben wat wie hoe waar wanneer waarom welke in op aan van met voor
        naar uit bij niet ook er toon geef
    """),
    "swedish": _words("""
        en ett och eller är var har hade vad vem hur när varför vilken vilka vilket i på av med för från till inte också
        den det de visa
    """),
    "russian": _words("""
        и или в на с по из за для от до не что кто как где когда почему какой какая какие какое сколько был была были
        это эти покажи есть
    """),
}
"""Function words of questions in other languages: they tell the language and are no terms."""

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
    "schedul": ("unschedulable", "insufficient", "taint", "affinity", "pressure"),
    "pending": ("unschedulable", "insufficient", "waiting"),
    "start": ("waiting", "backoff", "init"),
    "disk": ("volume", "storage", "filesystem"),
    "storage": ("disk", "volume", "capacity"),
    "network": ("connection", "dns", "socket"),
    "connect": ("refused", "unreachable", "dial"),
    "login": ("auth", "authentication", "password", "signin"),
    "auth": ("login", "unauthorized", "forbidden", "token"),
    "permission": ("denied", "forbidden", "unauthorized", "rbac"),
    "expir": ("not after", "notafter", "validity", "valid until"),
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
    "postgresql": ("postgres", "5432"),
    "postgr": ("postgresql", "5432"),
    "mysql": ("mariadb", "3306"),
    "redi": ("6379",),
    "mongodb": ("mongo", "27017"),
    "elasticsearch": ("9200",),
    "kafka": ("9092",),
    "memcach": ("11211",),
    "rdp": ("3389",),
}
"""By stem. Services are known by their ports where a configuration names only these; shorter ports are any number."""


STATES = _words("status state phase health condition result level severity type reason outcome conclusion verdict")
"""Labels of fields that hold the state of a record."""

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

_ERROR_ELSEWHERE = """
    fehler fehlgeschlagen fehlschlag abgebrochen abgestürzt erreur échec échoué fallo falló fallido errore fallito
    erro falha falhou fout mislukt fel misslyckades ошибка ошибки сбой エラー 失敗 错误 失败 異常 오류
"""
_WARNING_ELSEWHERE = """
    warnung veraltet fehlt avertissement attention advertencia aviso avviso attenzione waarschuwing varning
    предупреждение 警告 경고
"""

SEVERITY: dict[str, float] = {
    **dict.fromkeys(_WARNING_ELSEWHERE.split(), 1.0),
    **dict.fromkeys(_ERROR_ELSEWHERE.split(), 2.0),
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

HEADS_OF_NAMES = _words("error err exception failure timeout warning warn retry alert")
"""With another word behind them they name what deals with errors (`ErrorHandler`); at the end they are one."""

SETTINGS = _words("timeout retry backoff deadlock loop alert disabled")
"""With a number behind them they are settings."""

EVERYDAY = _words("""
    broken lost down bad loop slow stuck hung stale missing unknown waiting killed blocked dropped crash panic alert
    problem leak spike crashed stopped fatal
""")
"""Words of songs, films and people as well; between other capitalised words they belong to a title."""


_TIME = "duration latency elapsed took time seconds secs sec ms milliseconds millis minutes runtime"
_SIZE = "size bytes length count total amount area volume capacity"
_DATE = "date created modified updated time timestamp year born birth start started since version"
_RATE = "speed rate throughput velocity bandwidth qps rps hz frequency"

MEASURES: dict[str, str] = {
    **dict.fromkeys(("oldest", "youngest", "newest", "latest", "earliest"), f"age uptime {_DATE}"),
    **dict.fromkeys(("slow", "slowest", "fastest", "quickest"), f"{_TIME} {_RATE}"),
    **dict.fromkeys(("longest", "shortest"), f"{_TIME} length distance"),
    **dict.fromkeys(("largest", "biggest", "smallest"), _SIZE),
    **dict.fromkeys(("heaviest", "lightest"), "weight mass memory rss size"),
    **dict.fromkeys(("cheapest", "costliest", "priciest", "dearest"), "price cost amount total fare fee charge"),
    **dict.fromkeys(("hottest", "coldest"), "temperature temp"),
    "tallest": "height",
    "deepest": "depth level",
    "widest": "width",
    "busiest": "cpu load requests connections count calls",
}
"""What a superlative measures, by the labels that such numbers have."""
