"""Filler text for pages: sentences that state no fact.

Half of them describe a mood. The others contain names, places or numbers, as real
pages do, so that names and numbers alone do not mark a fact.
"""

import random
from dataclasses import dataclass

from tests.fakes.web.lore import Country

_SLOTS = {
    "opener": """
        Most mornings / On wet evenings / In the low season / For those who arrive late / Every so often / As a rule /
        Sooner or later /
        Not far from the road / Between the two hills / After the rains / To this day / For no clear reason / When the
        wind turns / Down
        by the water / In the upper streets / Around the old quarter / With a little patience / Seen from the ridge /
        On market days /
        Towards the end of the week
    """,
    "thing": """
        the river / the harbour wall / the market square / the old road / the stone bridge / the upper gate / the mill
        / the long hall /
        the lighthouse / the orchard path / the ferry landing / the tannery / the bell tower / the grain store / the
        rope walk / the
        quarry / the drying yard / the fish stairs / the customs house / the hanging gardens / the salt pans / the
        lower town / the chapel
        yard / the tavern row
    """,
    "does": """
        smells of wet rope and bread / is quieter than one would expect / lies in shadow until noon / fills with carts
        and voices / has
        been repaired more often than anyone counts / looks better from a distance / leads nowhere in particular / is
        where children learn
        to whistle / keeps its warmth long after sunset / turns to mud within the hour / has a sound of its own /
        invites the idle and the
        tired / hardly ever stands empty / changes its mood with the light / is swept by people who do not talk much /
        gives shelter to
        gulls and quarrels
    """,
    "people": """
        travellers / old hands / the locals / newcomers / fishermen / pilgrims / carters / students / singers / the
        night watch /
        innkeepers / weavers / pedlars / guides / storytellers / clerks
    """,
    "say": """
        say that the soup is better than the company / agree on little but the weather / warn against the stairs after
        dark / swear by the
        left-hand path / complain about the noise and stay anyway / remember it larger than it is / laugh at maps and
        ask for directions /
        keep a seat by the window for nobody / tell the same joke in three versions / trade gossip for tobacco / hum
        something between a
        hymn and a round / insist that nothing has changed / prefer the back door and a slow drink / argue about the
        colour of the roof /
        will not hear a word against the bread / look up whenever a cart goes by
    """,
    "also": """
        and that is enough for most visitors / though nobody would admit it / which suits everyone involved / as
        anyone who has tried will
        know / and the rest is a matter of taste / or so the story goes / while the dogs sleep through it all / and it
        shows / but it
        takes getting used to / without much ceremony / and no two people tell it alike / much to the regret of the
        bakers / and then it
        is over / if the light is right / as in any small place / and that is part of the charm
    """,
    "advice": """
        Bring a second pair of shoes / Leave the heavy bag at the inn / Ask twice before you turn left / Do not trust
        the painted signs /
        Take the slow way if you can / Expect to wait and enjoy it / Keep some coins for the singers / Stay for the
        evening if you have
        one to spare / Follow the sound of water / Mind the low beams / Try the dark bread first / Save your voice for
        the stairs
    """,
    "idea": """
        memory is a crowded room / the past is mostly kitchens and weather / every road is somebody's way home / stone
        forgets more slowly
        than people do / a good story needs a bad road / silence has a local accent / rumour travels faster than mules
        / what is repeated
        is not yet true / the best rooms face the wrong way / patience is the only reliable guide / nothing here is
        quite symmetrical /
        the small things outlast the large ones
    """,
    "unit": """
        minutes on foot / steps / coppers a cup / days by mule / rooms to let / benches / shutters / paces across /
        loaves a morning /
        gulls at a guess
    """,
}
_BANK = {name: tuple(" ".join(one.split()) for one in said.split("/")) for name, said in _SLOTS.items()}

_MOOD = (
    "{opener}, {thing} {does}, {also}.",
    "{opener}, {people} {say}.",
    "It is often remarked that {idea}, {also}.",
    "{advice}; {thing} {does}.",
    "{opener}, {thing} {does}, and {people} {say}.",
    "Among {people} it is understood that {idea}.",
    "What strikes one first is how {thing} {does}; what stays is that {idea}.",
    "{people} {say}, {also}.",
    "{advice}, {also}.",
    "If {thing} {does}, {people} {say}, {also}.",
    "There is a feeling that {idea}, and {opener_low} it is hard to disagree.",
)
_NAMED = (
    "{opener}, one may still hear {who} mentioned in passing, {also}.",
    "{place} comes up in every other conversation, and {people} {say}.",
    "Whether {who} ever set foot in {place} is a question that {people} leave to others.",
    "The road to {place} {does}, {also}.",
    "Readers who came here for {who} tend to stay for the description of {thing}.",
    "{opener}, {people} in {place} {say}.",
    "Some find the prose about {who} too warm, others too cold, {also}.",
    "A longer treatment of {who} would have to begin with {thing}, and {idea}.",
    "Neither {who} nor {other} would recognise {place} today, {also}.",
    "Comparisons between {who} and {other} fill whole evenings, {also}.",
    "A reader from {place} writes that the chapter on {who} runs to {n} pages, {also}.",
    "The picture that is said to show {who} in {place} shows somebody else, {also}.",
)
_NUMBERED = (
    "From {thing} it is about {n} {unit}, {also}.",
    "{opener}, count on {n} {unit} or a few more.",
    "There are {n} {unit} near {thing}, {also}.",
    "Chapter {n} of the usual guidebook skips {thing} altogether.",
)


@dataclass
class Filler:
    """Sentences for one page."""

    rng: random.Random
    country: Country
    mentioned: tuple[str, ...]
    """Who may be named in passing."""

    def sentence(self) -> str:
        rng = self.rng
        shape = rng.choice(rng.choices((_MOOD, _NAMED, _NUMBERED), weights=(62, 26, 12))[0])
        words = {name: rng.choice(bank) for name, bank in _BANK.items()}
        opener = words["opener"]
        who, other = rng.sample(self.mentioned, 2)
        text = shape.format(
            **words,
            opener_low=opener[0].lower() + opener[1:],
            who=who,
            other=other,
            place=rng.choice(self.country.places),
            n=rng.randint(3, 90),
        )
        return text[0].upper() + text[1:]

    def paragraph(self, *claims: str) -> str:
        """Some sentences, with these among them."""
        found = [self.sentence() for _ in range(self.rng.randint(3, 7))]
        for claim in claims:
            found.insert(self.rng.randint(0, len(found)), claim)
        return " ".join(found)
