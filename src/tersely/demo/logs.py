"""Renders the logs of the simulated services: thousands of routine lines, and the lines that a cause adds.

The formats are common ones: Spring Boot with stack traces, logfmt, JSON lines, Python's
logging with tracebacks, nginx access and error logs, klog. This module only formats;
which lines exist is decided in `causes` and `decoys`.
"""

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta

from tersely.demo.world import LogFormat, LogLine, Pod, Service, World

KEPT = timedelta(hours=3)
"""The age of the oldest log line."""

_LINES_PER_SERVICE = 6_000


def lines_of(
    world: World, service: Service, *, pod: str = "", lines: int = 3_000, since: timedelta = KEPT
) -> list[str]:
    """The last lines of a service, or of one of its pods; an entry may contain a stack trace."""
    entries = [
        (line.at, line.pod, _formatted(world, line)) for line in world.log_lines if line.pod.service.key == service.key
    ]
    entries += _routine(world, service)
    earliest = world.now - since
    entries = [entry for entry in entries if earliest <= entry[0] <= world.now and (not pod or entry[1].name == pod)]
    entries.sort(key=lambda entry: entry[0])
    prefixed = not pod
    return [f"[pod/{by.name}/{service.name}] {text}" if prefixed else text for _, by, text in entries[-lines:]]


def _formatted(world: World, line: LogLine) -> str:
    chance = world.chance(f"said/{line.pod.name}/{line.at.timestamp()}")
    return entry(line.pod.service.log_format, chance, line.at, line.pod, line.level, line.message, trace=line.trace)


def entry(
    log_format: LogFormat,
    chance: random.Random,
    at: datetime,
    pod: Pod,
    level: str,
    message: str,
    *,
    trace: bool = False,
    component: str = "",
) -> str:
    """One entry in a log format."""
    name = pod.service.name
    match log_format:
        case "java":
            thread = f"nio-{pod.service.port}-exec-{chance.randint(1, 40)}"
            logger = f"com.example.{name.replace('-', '')}.{component or 'RequestHandler'}"
            shown = "ERROR" if level == "FATAL" else level
            text = f"{_millis(at)}Z {shown:>5} 1 --- [{name}] [{thread:>18}] {logger:<44} : {message}"
            return text + (_java_trace(chance, name, message) if trace else "")
        case "go":
            where = f"{component or chance.choice(('handler', 'client', 'server'))}.go:{chance.randint(40, 400)}"
            shown = {"FATAL": "error"}.get(level, level.lower())
            return f"time={_millis(at)}Z level={shown} caller={where} msg={json.dumps(message)}"
        case "node":
            entry = {
                "level": "error" if level == "FATAL" else level.lower(),
                "timestamp": f"{_millis(at)}Z",
                "service": name,
            }
            entry |= {"traceId": f"{chance.getrandbits(64):016x}", "message": message}
            if trace:
                entry["stack"] = (
                    f"Error: {message}\n    at Client.request (/app/dist/client.js:{chance.randint(50, 200)}:17)"
                )
            return json.dumps(entry)
        case "python":
            shown = {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(level, level)
            text = (
                f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} {shown} "
                f"[{name.replace('-', '_')}.{component or 'views'}] {message}"
            )
            return text + (_python_trace(chance, name, message) if trace else "")
        case "nginx":
            shown = "error" if level in ("ERROR", "FATAL") else level.lower()
            return f"{at:%Y/%m/%d %H:%M:%S} [{shown}] 31#31: *{chance.randint(10**6, 10**7)} {message}"
        case "klog":
            place = f"{component or 'controller'}.go:{chance.randint(40, 900)}"
            return f"{level[0]}{at:%m%d %H:%M:%S.%f}       1 {place}] {message}"


def _millis(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def _java_trace(chance: random.Random, name: str, message: str) -> str:
    package = f"com.example.{name.replace('-', '')}"
    frames = [
        f"{package}.RequestHandler.handle(RequestHandler.java:{chance.randint(40, 300)})",
        f"{package}.Retrying.call(Retrying.java:{chance.randint(20, 90)})",
        "org.springframework.web.servlet.FrameworkServlet.service(FrameworkServlet.java:885)",
        "jakarta.servlet.http.HttpServlet.service(HttpServlet.java:658)",
        "org.apache.catalina.core.ApplicationFilterChain.doFilter(ApplicationFilterChain.java:140)",
        "org.apache.tomcat.util.threads.TaskThread$WrappingRunnable.run(TaskThread.java:63)",
        "java.base/java.lang.Thread.run(Thread.java:1583)",
    ]
    return f"\n\n{package}.RequestFailed: {message}\n" + "\n".join(f"\tat {frame}" for frame in frames)


def _python_trace(chance: random.Random, name: str, message: str) -> str:
    return (
        "\nTraceback (most recent call last):\n"
        f'  File "/app/{name.replace("-", "_")}/views.py", line {chance.randint(30, 300)}, in dispatch\n'
        "    return handler(request)\n"
        f'  File "/app/{name.replace("-", "_")}/client.py", line {chance.randint(30, 200)}, in call\n'
        "    raise RequestFailed(message)\n"
        f"RequestFailed: {message}"
    )


# --------------------------------------------------------------------------- routine


def _routine(world: World, service: Service) -> list[tuple[datetime, Pod, str]]:
    chance = world.chance(f"routine/{service.key}")
    pods = world.pods_of(service)
    if not pods:
        return []
    each = max(60, (_LINES_PER_SERVICE if service.namespace == world.namespace else 1_500) // len(pods))
    entries = []
    for pod in pods:
        if pod.phase != "Running" or (pod.waiting and pod.serves_until is None):
            continue
        begins = max(pod.created, world.now - KEPT)
        ends = min(pod.serves_until or world.now, world.now)
        span = (ends - begins).total_seconds()
        if span <= 0:
            continue
        format_line = _KINDS[service.log_format]
        for _ in range(int(each * min(1.0, 0.3 + span / KEPT.total_seconds()))):
            at = begins + timedelta(seconds=chance.uniform(0, span))
            entries.append((at, pod, format_line(chance, at, pod)))
    return entries


def _application(chance: random.Random, at: datetime, pod: Pod) -> str:
    service = pod.service
    drawn = chance.random()
    request = f"{chance.getrandbits(48):012x}"
    thing = f"{service.name.rstrip('s')}-{chance.randint(10_000, 99_999)}"
    took = int(chance.lognormvariate(3, 0.7)) + 1
    level, component = "INFO", "RequestHandler" if service.log_format == "java" else "views"
    if drawn < 0.25:
        message = f"GET /healthz 200 {chance.randint(0, 3)}ms agent=kube-probe/1.31"
    elif drawn < 0.65:
        verb, status = chance.choice(
            (("GET", 200), ("GET", 200), ("POST", 201), ("PUT", 200), ("GET", 304), ("GET", 404))
        )
        message = (
            f"{verb} /api/v1/{service.name}/{thing} {status} {took}ms request={request} "
            f"user=u{chance.randint(1, 90_000)}"
        )
    elif drawn < 0.80 and service.calls:
        message = f"called {chance.choice(service.calls)} in {took}ms status=200 request={request}"
    elif drawn < 0.90:
        hit = chance.choice(("true", "true", "true", "false"))
        message = f"cache lookup key={service.name}:{thing} hit={hit} size={chance.randint(200, 9_000)}"
    elif drawn < 0.97:
        message = (
            f"stored {thing} revision={chance.randint(1, 40)} bytes={chance.randint(300, 8_000)} request={request}"
        )
    elif drawn < 0.985:
        message = f"refreshed feature flags count={chance.randint(30, 45)} took={took}ms"
    elif drawn < 0.997:
        level, message = "WARN", f"slow request request={request} took {chance.randint(900, 1_800)}ms"
    else:
        level, message = "WARN", f"client closed connection before the answer was written request={request}"
    return entry(service.log_format, chance, at, pod, level, message, component=component)


_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/143.0",
    "okhttp/5.1.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X)",
    "curl/8.9",
)


def _nginx(chance: random.Random, at: datetime, pod: Pod) -> str:
    path = f"/api/v1/{chance.choice(pod.service.calls)}/{chance.randint(1_000, 99_999)}"
    status = chance.choices((200, 201, 304, 404, 499), (80, 8, 8, 3, 1))[0]
    if chance.random() < 0.15:
        path, status = "/healthz", 200
    return (
        f"10.{chance.randint(0, 99)}.{chance.randint(0, 255)}.{chance.randint(1, 254)} - - [{at:%d/%b/%Y:%H:%M:%S} "
        "+0000] "
        f'"GET {path} HTTP/1.1" {status} {chance.randint(120, 20_000)} "-" "{chance.choice(_AGENTS)}" '
        f"{chance.uniform(0.003, 0.3):.3f}"
    )


def _klog(chance: random.Random, at: datetime, pod: Pod) -> str:
    match pod.service.name:
        case "coredns":
            asker = f"10.244.{chance.randint(0, 6)}.{chance.randint(2, 254)}:{chance.randint(30_000, 60_000)}"
            answer = f"NOERROR qr,aa,rd 106 0.000{chance.randint(100, 400)}s"
            message, component = f'{asker} - "A IN kubernetes.default.svc.cluster.local. udp 54" {answer}', "log"
        case "cert-manager":
            message, component = (
                f'"re-queuing item due to optimistic locking" key="istio-system/cache-{chance.randint(1, 40)}"',
                "controller",
            )
        case "node-problem-detector":
            message, component = f"Start watching journald ({chance.randint(1, 9)} monitors active)", "log_monitor"
        case "metrics-server":
            message, component = f'"Scrape finished" nodes=7 duration="{chance.randint(20, 90)}ms"', "scraper"
        case _:
            message, component = (
                f'"Syncing rules" duration="{chance.randint(10, 60)}ms" generation={chance.randint(1_000, 9_999)}',
                "proxier",
            )
    return entry("klog", chance, at, pod, "INFO", message, component=component)


_KINDS: dict[LogFormat, Callable[[random.Random, datetime, Pod], str]] = {
    "java": _application,
    "go": _application,
    "node": _application,
    "python": _application,
    "nginx": _nginx,
    "klog": _klog,
}
