"""Cases of our own: texts nobody has seen, with a question and the answer that must survive condensing.

`cases.draw` makes one from a shape, an ask and a seed; the same three give the same case
on every machine. `shapes` and `logs` invent the texts, `vocabulary` the words in them,
`records` the data. Scoring is literal, as a reader who searches would score: the answer
stands in the output, near the name of what it belongs to, or it does not.

Some shapes are held out: their cases count, but only in one total, so nobody tunes on them.
"""
