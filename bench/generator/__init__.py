"""Generated cases: invented texts, each with a question and the answer that must survive condensing.

`cases.draw` makes a case from a shape, an ask and a seed; the same three give the same
case on every machine. `shapes` and `logs` generate the texts, `vocabulary` the words,
`records` the data. Scoring is literal: the answer is in the output, near the name of the
thing it belongs to, or it is not.

Some shapes are held out: their cases count only in one total, so that they are not used for tuning.
"""
