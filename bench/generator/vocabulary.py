"""The words of generated data: twenty domains, and invented words that belong to none.

Nothing here is taken from real data. Knowing one domain does not help a condenser:
every case chooses its domain at random, and one in four uses words invented for that
case.
"""

from dataclasses import dataclass
from random import Random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES = _words(
    "amber ancient arctic autumn bitter blazing bold brisk bronze calm cedar clever coastal copper coral crimson "
    "dapper distant "
    "dusty eager early ebony elder faded fallow fierce flint frosty gentle gilded golden granite hazel hidden hollow "
    "humble indigo "
    "iron ivory jade keen lively lofty lunar maple marble mellow misty modest mossy narrow nimble noble northern "
    "olive opal pale "
    "patient pearl placid polar prime proud quiet rapid raven rocky royal ruby rustic sandy scarlet serene shady "
    "silent silver "
    "sleepy slender smoky snowy solar solemn stark steady stormy subtle sunny swift tawny thorny tidal twin upland "
    "velvet vivid "
    "wild windy winter woven young zesty"
)

THINGS = _words(
    "acorn anchor anvil arrow badger basin beacon birch bison bramble bridge brook burrow canyon cargo castle cedar "
    "cliff cobra "
    "comet condor copse crane crater creek crown dagger delta dingo dune eagle ember falcon fern finch fjord forge "
    "fox garnet gate "
    "geyser glacier glade grove gull harbor hawk heron hill hive hollow island ivy jackal jetty kestrel kettle lagoon "
    "lantern lark "
    "ledge lemur lichen linden lynx magpie marsh martin meadow mesa mill minnow moth nettle oak orchard osprey otter "
    "owl panther "
    "pebble pike pine plover pond poplar quail quarry quartz rapids reef ridge river robin rook saddle salmon shoal "
    "shrike spruce "
    "starling stone stork summit swallow thicket thistle tower trout tundra valley viper warbler wharf willow wolf "
    "wren yarrow "
    "zephyr"
)

FAMILY_NAMES = _words(
    "Abara Albrecht Almeida Anand Bakker Bianchi Bjornstad Castellano Chaudhry Dahlberg Delacroix Dimitrov Eriksen "
    "Falk Ferreira "
    "Fujimoto Gallagher Ghosh Haddad Halvorsen Ibarra Ivanova Jankowski Kaplan Kimura Kowalczyk Lindqvist Lombardi "
    "Macleod "
    "Marchetti Mbeki Moreau Nakamura Novak Oduya Okafor Olsson Papadakis Petrescu Quintero Rahman Rasmussen Sandoval "
    "Schreiber "
    "Silva Takahashi Tanaka Ueda Vargas Venkatesan Weiss Yilmaz Zielinska"
)

FIRST_NAMES = _words(
    "Ada Amir Anika Bela Carla Chidi Dalia Diego Edda Emil Farid Freya Gita Hanna Hugo Ines Ivo Jana Joao Kaito Lena "
    "Luca Maren "
    "Mei Milo Nadia Nils Oona Pavel Petra Rafa Rosa Sami Selma Tariq Tess Uma Viktor Wanda Yara Zeno"
)

PLACES = _words(
    "Aveiro Bergen Bilbao Brno Cadiz Cork Dakar Delft Esbjerg Fukuoka Galway Genoa Ghent Graz Izmir Jena Kaunas Kochi "
    "Lagos Leeds "
    "Liege Lima Lodz Lund Malmo Maribor Mendoza Nantes Odense Oulu Patras Perth Pune Quito Riga Rouen Salta Sibiu "
    "Split Tampere "
    "Tartu Trento Turku Umea Utrecht Vigo Wellington Xalapa Yanbu Zadar"
)

PHRASES = (
    "checked by the night shift",
    "replaced after the last inspection",
    "see the notes of the previous quarter",
    "handed over without remarks",
    "moved from the old site in spring",
    "kept for reference only",
    "awaiting a signature from the office",
    "measured twice and confirmed",
    "runs on the spare line",
    "shared with the neighbouring team",
    "imported from the legacy register",
    "renewed automatically each year",
    "covered by the general agreement",
    "first of its series",
    "built to the revised drawing",
    "sampled at the north gate",
    "listed in the public catalogue",
    "documented in the blue folder",
    "reserved for the autumn programme",
    "delivered in two parts",
    "adjusted to the new tariff",
    "approved with minor changes",
    "stored in the cold room",
    "labelled by hand",
    "counted together with its twin",
)


@dataclass(frozen=True)
class State:
    """A field with few values; `bad` are values that any reader would call trouble, `odd` merely differ."""

    name: str
    usual: tuple[str, ...]
    bad: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


@dataclass(frozen=True)
class Number:
    name: str
    low: float
    high: float
    decimals: int = 0
    unit: str = ""


@dataclass(frozen=True)
class Domain:
    noun: str
    plural: str
    identity: str
    states: tuple[State, ...]
    numbers: tuple[Number, ...]
    groups: tuple[str, ...]
    verbs: tuple[str, ...]
    """What is done to one of them, for log messages."""


def _domain(
    noun: str,
    plural: str,
    identity: str,
    states: tuple[State, ...],
    numbers: tuple[Number, ...],
    groups: str,
    verbs: str,
) -> Domain:
    return Domain(noun, plural, identity, states, numbers, tuple(groups.split()), tuple(verbs.split()))


DOMAINS = (
    _domain(
        "vessel",
        "vessels",
        "name",
        (
            State("status", ("sailing", "moored", "anchored"), ("aground", "distress"), ("towed",)),
            State("flag", ("PA", "LR", "MH", "MT"), (), ("BO",)),
            State("hull type", ("bulk", "tanker", "container"), (), ("trimaran",)),
        ),
        (
            Number("draught", 4, 16, 1),
            Number("gross tonnage", 3000, 90000),
            Number("crew count", 9, 34),
            Number("fuel level", 20, 99, 1, "%"),
        ),
        "voyage registry position engine",
        "berthed departed inspected bunkered piloted",
    ),
    _domain(
        "patient",
        "patients",
        "patient_id",
        (
            State("ward", ("cardiology", "surgery", "pediatrics", "oncology"), (), ("quarantine",)),
            State("triage", ("green", "yellow"), ("black",), ("violet",)),
            State("insurance", ("public", "private"), ("rejected",), ("diplomatic",)),
        ),
        (
            Number("heart rate", 55, 100),
            Number("stay days", 1, 21),
            Number("age", 2, 95),
            Number("temperature", 36, 38, 1),
        ),
        "admission vitals billing contact",
        "admitted transferred discharged examined scheduled",
    ),
    _domain(
        "pod",
        "pods",
        "name",
        (
            State(
                "phase", ("Running", "Succeeded"), ("CrashLoopBackOff", "ImagePullBackOff", "Evicted"), ("Suspended",)
            ),
            State("namespace", ("shop", "billing", "platform", "edge"), (), ("sandbox-7",)),
            State("qos class", ("Burstable", "Guaranteed"), (), ("BestEffort",)),
        ),
        (
            Number("restarts", 0, 3),
            Number("memory", 60, 900, 0, "Mi"),
            Number("cpu", 5, 400, 0, "m"),
            Number("age", 1, 90, 0, "d"),
        ),
        "spec status metadata limits",
        "scheduled pulled started probed drained",
    ),
    _domain(
        "switch port",
        "switch ports",
        "interface",
        (
            State("oper state", ("up",), ("err-disabled", "notconnect"), ("loopback",)),
            State("duplex", ("full", "auto"), (), ("half",)),
            State("vlan", ("10", "20", "30", "110"), (), ("666",)),
        ),
        (
            Number("rx errors", 0, 9),
            Number("mtu", 1500, 9216),
            Number("utilization", 1, 70, 1, "%"),
            Number("tx packets", 10000, 900000),
        ),
        "counters config neighbor optics",
        "flapped negotiated learned polled mirrored",
    ),
    _domain(
        "invoice",
        "invoices",
        "number",
        (
            State("payment state", ("paid", "open", "sent"), ("disputed", "defaulted"), ("bartered",)),
            State("currency", ("EUR", "USD", "CHF"), (), ("XAF",)),
            State("channel", ("post", "mail", "portal"), (), ("courier",)),
        ),
        (
            Number("net amount", 20, 9000, 2),
            Number("days overdue", 0, 20),
            Number("line count", 1, 40),
            Number("discount", 0, 15, 1, "%"),
        ),
        "customer totals terms shipping",
        "issued posted reminded matched archived",
    ),
    _domain(
        "weather station",
        "weather stations",
        "station",
        (
            State("sensor state", ("nominal", "calibrating"), ("failed", "frozen"), ("relocated",)),
            State("power source", ("solar", "mains"), ("battery-critical",), ("diesel",)),
            State("network", ("lora", "gsm"), (), ("satellite",)),
        ),
        (
            Number("wind speed", 0, 22, 1),
            Number("pressure", 980, 1035, 1),
            Number("humidity", 30, 95, 0, "%"),
            Number("altitude", 5, 2400),
        ),
        "location readings maintenance link",
        "reported synchronised calibrated rebooted sampled",
    ),
    _domain(
        "build",
        "builds",
        "build_id",
        (
            State("result", ("passed",), ("failed", "aborted"), ("quarantined",)),
            State("branch", ("main", "develop", "release"), (), ("hotfix-frozen",)),
            State("runner", ("linux-small", "linux-large", "arm"), (), ("s390x",)),
        ),
        (
            Number("duration", 40, 900, 0, "s"),
            Number("tests run", 200, 4000),
            Number("coverage", 60, 95, 1, "%"),
            Number("queue time", 1, 60, 0, "s"),
        ),
        "commit artifacts trigger cache",
        "queued compiled cached uploaded published",
    ),
    _domain(
        "flight",
        "flights",
        "flight_no",
        (
            State("state", ("on time", "boarding", "landed"), ("diverted", "cancelled"), ("taxiing back",)),
            State("aircraft", ("A320", "B738", "E190", "AT76"), (), ("AN24",)),
            State("terminal", ("1", "2", "3"), (), ("C9",)),
        ),
        (
            Number("delay minutes", 0, 35),
            Number("passengers", 40, 210),
            Number("distance km", 200, 4000),
            Number("fuel burn", 1200, 9000),
        ),
        "departure arrival crew weather",
        "boarded pushed cleared handed deiced",
    ),
    _domain(
        "telescope target",
        "telescope targets",
        "designation",
        (
            State("class", ("galaxy", "quasar", "binary"), (), ("unclassified",)),
            State("filter", ("g", "r", "i"), (), ("H-alpha",)),
            State("quality", ("good", "fair"), ("corrupt", "saturated"), ("provisional",)),
        ),
        (
            Number("magnitude", 9, 21, 2),
            Number("redshift", 0, 3, 4),
            Number("exposure", 30, 900, 0, "s"),
            Number("seeing", 0, 2, 2),
        ),
        "photometry ephemeris observer instrument",
        "slewed exposed guided focused stacked",
    ),
    _domain(
        "parcel",
        "parcels",
        "tracking code",
        (
            State("stage", ("in transit", "delivered", "sorted"), ("lost", "damaged"), ("confiscated",)),
            State("service", ("economy", "express", "standard"), (), ("white glove",)),
            State("depot", ("north", "south", "harbor"), (), ("annex",)),
        ),
        (
            Number("weight", 0, 30, 2, "kg"),
            Number("postage", 2, 60, 2),
            Number("stops left", 0, 40),
            Number("attempts", 1, 3),
        ),
        "sender recipient route customs",
        "scanned loaded sorted weighed forwarded",
    ),
    _domain(
        "database table",
        "database tables",
        "table_name",
        (
            State("engine", ("heap", "columnar"), (), ("csvfile",)),
            State("replication", ("async", "sync"), ("broken",), ("paused",)),
            State("tier", ("hot", "warm", "cold"), (), ("glacial",)),
        ),
        (
            Number("row count", 1000, 900000),
            Number("dead tuples", 0, 900),
            Number("index size", 10, 800, 0, "MB"),
            Number("seq scans", 0, 500),
        ),
        "storage vacuum owner statistics",
        "vacuumed analyzed locked reindexed checkpointed",
    ),
    _domain(
        "turbine",
        "turbines",
        "unit",
        (
            State("mode", ("generating", "idle"), ("tripped", "overheated"), ("islanded",)),
            State("park", ("Nordsee", "Baltic", "Ridge"), (), ("Testfeld",)),
            State("blade model", ("B54", "B61"), (), ("B70x",)),
        ),
        (
            Number("output kw", 100, 3600),
            Number("rotor rpm", 6, 16, 1),
            Number("gearbox temp", 40, 75, 1),
            Number("yaw angle", 0, 359),
        ),
        "nacelle grid service alarms",
        "feathered yawed synchronised derated greased",
    ),
    _domain(
        "package",
        "packages",
        "package",
        (
            State("license", ("MIT", "Apache-2.0", "BSD-3-Clause"), (), ("SSPL-1.0",)),
            State("scope", ("runtime", "dev", "test"), (), ("vendored",)),
            State("audit", ("clean", "reviewed"), ("vulnerable", "malicious"), ("embargoed",)),
        ),
        (
            Number("downloads", 200, 90000),
            Number("open issues", 0, 120),
            Number("size kb", 4, 3000),
            Number("dependents", 0, 400),
        ),
        "source checksum maintainer engines",
        "resolved fetched verified linked pruned",
    ),
    _domain(
        "bank account",
        "bank accounts",
        "iban",
        (
            State("kyc", ("verified", "renewed"), ("blocked", "fraud-suspected"), ("grandfathered",)),
            State("product", ("giro", "savings", "business"), (), ("escrow",)),
            State("branch", ("Mitte", "Harbor", "West"), (), ("Online-X",)),
        ),
        (
            Number("balance", 10, 90000, 2),
            Number("overdraft limit", 0, 5000),
            Number("transfers", 0, 300),
            Number("interest", 0, 4, 2, "%"),
        ),
        "holder limits mandate risk",
        "debited credited reconciled frozen audited",
    ),
    _domain(
        "field plot",
        "field plots",
        "plot",
        (
            State("crop", ("barley", "rye", "beet", "rapeseed"), (), ("saffron",)),
            State("irrigation", ("drip", "sprinkler"), ("burst", "clogged"), ("flood",)),
            State("soil", ("loam", "clay", "sand"), (), ("peat",)),
        ),
        (
            Number("yield", 2, 9, 2, "t"),
            Number("moisture", 12, 40, 1, "%"),
            Number("nitrogen", 20, 180),
            Number("area", 1, 40, 1, "ha"),
        ),
        "survey treatment harvest lease",
        "sown sprayed harvested surveyed rolled",
    ),
    _domain(
        "recording",
        "recordings",
        "track id",
        (
            State("genre", ("folk", "jazz", "ambient", "baroque"), (), ("gabber",)),
            State("codec", ("flac", "opus"), ("truncated",), ("adpcm",)),
            State("rights", ("cleared", "public domain"), ("infringing",), ("orphaned",)),
        ),
        (
            Number("length", 60, 900, 0, "s"),
            Number("bitrate", 96, 1411),
            Number("plays", 10, 90000),
            Number("loudness", -24, -6, 1),
        ),
        "album artist session mastering",
        "mastered ingested tagged transcoded licensed",
    ),
    _domain(
        "queue",
        "queues",
        "queue",
        (
            State("policy", ("mirrored", "quorum", "classic"), (), ("ephemeral",)),
            State("health", ("ok",), ("stalled", "unreachable"), ("draining",)),
            State("vhost", ("/", "orders", "mail"), (), ("legacy",)),
        ),
        (
            Number("depth", 0, 800),
            Number("consumers", 1, 24),
            Number("publish rate", 1, 900, 1),
            Number("oldest age", 0, 90, 0, "s"),
        ),
        "broker binding memory acks",
        "published consumed requeued acked purged",
    ),
    _domain(
        "reactor batch",
        "reactor batches",
        "batch",
        (
            State("phase", ("charging", "heating", "holding", "done"), ("runaway",), ("reworked",)),
            State("catalyst", ("Pd-C", "Ni-R", "Pt-2"), (), ("Ru-X9",)),
            State("release", ("approved", "pending"), ("contaminated",), ("sampled twice",)),
        ),
        (
            Number("peak temp", 60, 180, 1),
            Number("ph", 4, 9, 2),
            Number("volume l", 100, 4000),
            Number("purity", 92, 99, 2, "%"),
        ),
        "recipe quality operator vessel",
        "charged stirred vented filtered sampled",
    ),
    _domain(
        "meter",
        "meters",
        "meter_serial",
        (
            State("tariff", ("day", "night", "flat"), (), ("heritage",)),
            State("comms", ("ok", "delayed"), ("tampered", "dead"), ("manual",)),
            State("phase count", ("1", "3"), (), ("2",)),
        ),
        (
            Number("reading kwh", 1000, 90000),
            Number("voltage", 225, 236, 1),
            Number("peak load", 1, 14, 2, "kW"),
            Number("outages", 0, 4),
        ),
        "premise contract firmware signal",
        "read billed pinged swapped sealed",
    ),
    _domain(
        "exhibit",
        "exhibits",
        "inventory no",
        (
            State("condition", ("stable", "restored"), ("mouldy", "missing"), ("disassembled",)),
            State("material", ("bronze", "linen", "oak", "clay"), (), ("meteorite",)),
            State("room", ("A", "B", "C", "D"), (), ("Vault-0",)),
        ),
        (
            Number("insured value", 500, 90000),
            Number("year", 1400, 1950),
            Number("height cm", 4, 240, 1),
            Number("loans", 0, 9),
        ),
        "provenance display conservation donor",
        "catalogued loaned restored photographed crated",
    ),
)

ONSETS = _words("b bl br c cl d dr f fl g gl gr h j k kl kr l m n p pl pr q r s sk sl sn st t tr v w x z zh")
VOWELS = _words("a e i o u ai ea ou io y")
CODAS = ("", *_words("n r l s t m k x nd rt sk lm ff"))


def pseudo_word(rng: Random, syllables: int = 0) -> str:
    return "".join(
        rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
        for _ in range(syllables or rng.choice((1, 2, 2, 2, 3)))
    )


def invented_domain(rng: Random) -> Domain:
    """An invented domain; only its words for problems are English."""

    def words(count: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pseudo_word(rng, 2) for _ in range(count)))

    def state() -> State:
        return State(
            pseudo_word(rng),
            words(rng.randint(2, 4)),
            (rng.choice(("failed", "corrupted", "rejected", "timeout")),),
            words(1),
        )

    def number() -> Number:
        low = rng.choice((0, 1, 10, 100, 5000))
        return Number(
            " ".join(words(rng.randint(1, 2))), low, low + rng.choice((9, 60, 500, 40000)), rng.choice((0, 0, 1, 2))
        )

    noun = pseudo_word(rng, 2)
    return Domain(
        noun,
        noun + "s",
        rng.choice(("name", "id", "key", pseudo_word(rng))),
        (state(), state(), state()),
        (number(), number(), number(), number()),
        words(4),
        tuple(word + "ed" for word in words(5)),
    )


def some_domain(rng: Random) -> Domain:
    return invented_domain(rng) if rng.random() < 0.25 else rng.choice(DOMAINS)


def hex_digits(rng: Random, count: int) -> str:
    return "".join(rng.choice("0123456789abcdef") for _ in range(count))


def two_words(rng: Random) -> tuple[str, str]:
    return (
        (rng.choice(ADJECTIVES), rng.choice(THINGS))
        if rng.random() < 0.8
        else (pseudo_word(rng, 2), pseudo_word(rng, 2))
    )


NAME_STYLES = ("kebab", "kebab-number", "kebab-hash", "code", "dotted", "path", "uuid", "integer", "snake", "title")


def identity(rng: Random, style: str, number: int) -> str:
    """A name for one record; `number` makes it unique where words alone might not."""
    first, second = two_words(rng)
    match style:
        case "kebab":
            return f"{first}-{second}-{pseudo_word(rng, 2)}"
        case "kebab-number":
            return f"{first}-{second}-{number}"
        case "kebab-hash":
            return f"{first}-{second}-{hex_digits(rng, 9)}-{hex_digits(rng, 5)}"
        case "code":
            return f"{first[:2].upper()}{second[:1].upper()}-{number:05d}"
        case "dotted":
            return f"org.{first}.{second}.{pseudo_word(rng, 2)}{number}"
        case "path":
            return f"/{first}/{second}/{pseudo_word(rng, 2)}{number}"
        case "uuid":
            digits = hex_digits(rng, 32)
            return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        case "integer":
            return str(rng.randint(100_000, 999_999) * 10 + number % 10)
        case "snake":
            return f"{first}_{second}_{number}"
        case _:
            return f"{first.title()} {second.title()} {pseudo_word(rng, 2).title()}"
