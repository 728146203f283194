"""Topics in, sourced findings out: a researcher works through topics, its pages are condensed where they arrive, facts
are extracted.
"""
