"""The table of weights: what a unit gains from each of its features.

A feature is a number of about 0 to 1 (severity: 0 to 3) that `features` computes from the text and the question.
The score of a unit is the sum of its features times their weights. Every weight is at least 0: no feature makes a
unit worse. `python -m bench.fit` fits the table with whole kinds of texts held out and says where a fitted weight
is better than the one here; a weight changes only if it is better on the kinds that were held out.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """What one unit of each feature is worth; pairs are for questions that ask for it and for others."""

    relevance: float
    """The unit contains terms of the question (BM25, about 0..1.3)."""
    nearness: float
    """A unit beside it contains terms of the question, most of all those that this one lacks."""
    severity: float
    """Words of severity by role, 0 to 3."""
    severity_asked: float
    """The same where the question asks for trouble, or there is no question."""
    rarity: float
    """How few units have this shape: 1 for a shape that occurs once, 0 for the shape of all units."""
    rarity_asked: float
    """The same where the question asks for the unusual, or there is no question."""
    standing: float
    """What `records.weigh_columns` gives: an odd value, an extreme, a value beyond a limit or in another state."""
    window: float
    """The unit is inside the span of time that the question asks for."""
    position: float
    """The unit is among the first or last lines, where texts say what they are and how they end."""
    position_asked: float
    """The same where there is no question."""
    pinned: float
    """The unit states an outcome: the summary of a test run, build, plan or command."""
    pinned_asked: float
    """The same where the question asks for trouble, or there is no question."""


GENERIC = Weights(
    relevance=2.2,
    nearness=1.0,
    severity=0.12,
    severity_asked=0.35,
    rarity=0.25,
    rarity_asked=0.5,
    standing=1.0,
    window=0.5,
    position=0.0,
    position_asked=0.0,
    pinned=0.3,
    pinned_asked=1.0,
)
"""For lines of any kind, set by hand.

`bench.fit` fitted it on 370 cases of 108 kinds, twice. The stronger hold on these values ordered slightly more pairs of
lines on held-out kinds (.755 against .748) and on shapes never fitted on (.822 against .819), and kept more needles in
t1 (.820 against .805 @1000) but fewer in t5 (.758 against .768 @500); the weaker one lost on the shapes (.800). That is
mixed, so the values stay. Nothing spoke for `position`;
outcomes are pinned because a reader must not miss them, and no other kind lost by it.
"""
