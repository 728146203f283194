"""Benchmarks: one command for each claim, with other libraries for comparison."""
