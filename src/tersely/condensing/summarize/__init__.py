"""Summaries by a model: planning, map-reduce, validation of answers, lossless folding, cache and prompts."""
