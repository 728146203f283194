"""An invented country, drawn from a seed: people and allegiances, dated events, and relics with their keepers.

`LoreFact` is a fact as a page states it. Wrong statements are facts too, so two of
them may contradict each other. Each kind has at least eight phrasings. The rest of a
page is `pages`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["name", "allegiance", "date", "event", "item"]
KINDS: tuple[Kind, ...] = ("name", "allegiance", "date", "event", "item")

_ONSETS = "b br c ch d dr f fl g gr h j k l m n p pr qu r s sh st t th tr v w y z".split()
_VOWELS = "a e i o u ae ei ia o a e".split()
_CODAS = "l n r s th nd rn ll m v ck st".split()
_FAMILY_ENDS = "wick mere holt ford garth lowe strand combe shaw thorne rigg bourne fell croft moor dale".split()
_PLACE_ENDS = "haven reach gate watch barrow cross hollow bridge spire cairn moot weir".split()
_EPITHETS = (
    "the Lamplighter", "the Unbidden", "the Second Tide", "the Quiet Hand", "the Glasscutter", "the Hound of the Fen",
    "the Widow's Shield", "the Ninth Witness", "the Ashen Crow", "the Pale Reckoner", "the Late Arrival",
    "the Bellringer",
    "the Iron Gardener", "the Salt Prince", "the Twice Crowned", "the Last Ferryman", "the Chalk Saint",
    "the Winter Clerk",
    "the Oathless", "the Copper Fox", "the Tallow King", "the Blind Cartographer", "the Red Abbess", "the Storm Notary",
    "the Candle Thief", "the Patient Knife", "the Orchard Wolf", "the Nameless Heir", "the Third Oar",
    "the Honey Merchant",
    "the Grey Sister", "the Unlucky Duke", "the Lantern Wife", "the Wolf of the Weir", "the Silent Bailiff",
    "the Barefoot Judge",
    "the Moth", "the Rain Counter", "the Good Liar", "the Stone Midwife", "the Borrowed King", "the Hinge",
    "the Early Mourner",
    "the Goose Captain",
)  # fmt: skip
_FACTIONS = (
    "Order of the {thing}", "House {name}", "{name} Compact", "Brotherhood of the {thing}", "{thing} Guild",
    "Free Company of {name}",
    "Covenant of the {thing}", "{name} Wardens", "League of the {thing}", "Chapter of {name}", "Keepers of the {thing}",
    "{name} Circle", "Pact of the {thing}", "Sisters of {name}",
)  # fmt: skip
_THINGS = (
    "Grey Heron", "Broken Oar", "Silver Plough", "Drowned Bell", "Open Hand", "Thorn Crown", "White Kiln",
    "Black Sail", "Burning Reed",
    "Sunken Star", "Blue Lantern", "Hollow Oak", "Third Moon", "Bent Nail", "Green Door", "Stone Boat",
)  # fmt: skip
_EVENTS = (
    "Siege of {place}", "Treaty of {place}", "Burning of {place}", "Battle of {place}", "Council of {place}",
    "Flood of {place}",
    "Coronation at {place}", "Mutiny of {place}", "Fall of {place}", "Great Fair of {place}", "March on {place}",
    "Trial of {place}",
    "Plague of {place}", "Revolt of {place}", "Truce of {place}", "Wedding at {place}", "Sack of {place}",
    "Oath of {place}",
    "Partition of {place}", "Wreck off {place}", "Feast of {place}", "Ambush at {place}", "Synod of {place}",
    "Long Winter of {place}",
)  # fmt: skip
_MATERIALS = (
    "Ember", "Gilded", "Cracked", "Sable", "Ivory", "Weeping", "Frozen", "Singing", "Hollow", "Crimson", "Drowned",
    "Starlit", "Rusted",
    "Amber", "Velvet", "Obsidian", "Bitter", "Leaden", "Thrice-Forged", "Verdant", "Pearl", "Moonlit", "Tarnished",
    "Whispering",
)  # fmt: skip
_OBJECTS = (
    "Astrolabe", "Crown", "Ledger", "Lantern", "Chalice", "Compass", "Banner", "Spindle", "Mirror", "Horn", "Psalter",
    "Key", "Anvil",
    "Censer", "Gauntlet", "Loom", "Chisel", "Viol", "Saddle", "Reliquary", "Dagger", "Scales", "Seal", "Hourglass",
)  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@dataclass(frozen=True)
class LoreFact:
    """Something that a page states."""

    kind: Kind
    about: str
    value: str
    is_contradicted: bool = False
    """Some other page states another value."""

    @property
    def parts(self) -> tuple[str, str]:
        """What must stand together somewhere for the claim to be there, word for word."""
        return self.about, self.value


@dataclass(frozen=True)
class Country:
    seed: int
    name: str
    people: tuple[str, ...]
    places: tuple[str, ...]
    factions: tuple[str, ...]
    claims: tuple[LoreFact, ...]


PHRASINGS: dict[Kind, tuple[str, ...]] = {
    "name": (
        "{about} is better known as {value}.",
        "{about}, called {value} by friend and foe, was seldom seen without a grey coat.",
        "In the ballads {about} appears only as {value}.",
        "Nobody uses the name {about} in the taverns; there it is {value}, and everyone knows who is meant.",
        "The title {value} was given to {about} after a night of which several versions exist.",
        "Behind the byname {value} stands {about}, born within sight of the sea.",
        "{about} signs letters with a second name, {value}, and has done so for years.",
        "Ask for {value} and you will be led to {about}.",
        "* {about}: {value}",
        "| {about} | byname | {value} |",
    ),
    "allegiance": (
        "{about} is sworn to the {value}.",
        "{about} took the oath before the altar and has served the {value} ever since.",
        "The {value} counts {about} among its most trusted members.",
        "Letters in the hand of {about} carry the seal of the {value}.",
        "When banners are raised, {about} stands under that of the {value}.",
        "{about} answers to the {value} and to nobody else.",
        "After the quarrel at court {about} found a home in the {value}, and never left it.",
        "Whoever pays {about}, it is the {value} that gets the loyalty.",
        "* {about}: {value}",
        "| {about} | allegiance | {value} |",
    ),
    "date": (
        "The {about} took place on {value}.",
        "On {value} came the {about}, which the chronicles describe at length.",
        "Most chroniclers date the {about} to {value}.",
        "The bells are still rung on the anniversary of the {about}: {value}.",
        "It was {value} when the {about} began.",
        "A stone by the gate gives {value} as the day of the {about}.",
        "The {about} ({value}) divides the old calendar from the new.",
        "By the evening of {value} the {about} was over.",
        "* {about}: {value}",
        "| {about} | date | {value} |",
    ),
    "event": (
        "The {about} was led by {value}.",
        "{value} gave the order that started the {about}.",
        "In the {about} it was {value} who carried the day.",
        "Without {value} there would have been no {about}, as both sides admit.",
        "The {about} made the name of {value}.",
        "{value} was wounded in the {about} and limped ever after.",
        "The victor of the {about} was {value}, against all odds.",
        "Songs of the {about} begin and end with {value}.",
        "* {about}: {value}",
        "| {about} | led by | {value} |",
    ),
    "item": (
        "The {about} is in the hands of {value}.",
        "{value} carries the {about} and lets nobody touch it.",
        "The {about} passed to {value} by inheritance.",
        "Since the last auction the {about} has belonged to {value}.",
        "{value} found the {about} under a kitchen floor and kept it.",
        "Whoever wants to see the {about} has to ask {value}.",
        "The {about} was a gift to {value}, and not a welcome one.",
        "It is {value} who guards the {about} these days.",
        "* {about}: {value}",
        "| {about} | keeper | {value} |",
    ),
}
"""With item and row: ten ways to say it, eight of them sentences."""


def draw_country(seed: int) -> Country:
    rng = random.Random(f"country {seed}")
    words = _Words(rng)
    name = f"{words.fresh().capitalize()}mark"
    places = tuple(words.fresh().capitalize() + rng.choice(_PLACE_ENDS) for _ in range(26))
    people = tuple(
        f"{words.fresh().capitalize()} {words.fresh().capitalize()}{rng.choice(_FAMILY_ENDS)}" for _ in range(40)
    )
    things = rng.sample(_THINGS, len(_THINGS))
    shapes = rng.sample(_FACTIONS, len(_FACTIONS))
    factions = tuple(shape.format(thing=things.pop(), name=words.fresh().capitalize()) for shape in shapes)
    events = tuple(shape.format(place=places[at]) for at, shape in enumerate(rng.sample(_EVENTS, len(_EVENTS))))
    items = tuple(f"{of} {what}" for of, what in zip(rng.sample(_MATERIALS, 24), rng.sample(_OBJECTS, 24), strict=True))
    epithets = rng.sample(_EPITHETS, len(people))
    claims: list[LoreFact] = []
    for person, epithet in zip(people, epithets, strict=True):
        claims.append(LoreFact("name", person, epithet))
    claims += _drawn(rng, "allegiance", people, factions, contradicted=6)
    claims += _drawn(rng, "date", events, [_date(rng) for _ in range(90)], contradicted=5)
    claims += _drawn(rng, "event", events, people, contradicted=4)
    claims += _drawn(rng, "item", items, people, contradicted=4)
    return Country(seed, name, people, places, factions, tuple(claims))


def _drawn(
    rng: random.Random, kind: Kind, about: Sequence[str], values: Sequence[str], *, contradicted: int
) -> list[LoreFact]:
    twice = set(rng.sample(list(about), contradicted))
    found: list[LoreFact] = []
    for one in about:
        first, second = rng.sample(list(values), 2)
        found.append(LoreFact(kind, one, first, one in twice))
        if one in twice:
            found.append(LoreFact(kind, one, second, True))
    return found


def _date(rng: random.Random) -> str:
    return f"{rng.randint(1, 28)} {rng.choice(_MONTHS)} {rng.randint(1104, 1489)}"


class _Words:
    """Words that exist nowhere, none of them twice and none inside another."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._made: list[str] = []

    def fresh(self) -> str:
        rng = self._rng
        while True:
            word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(2)) + rng.choice(_CODAS)
            if not any(word in other or other in word for other in self._made):
                self._made.append(word)
                return word
