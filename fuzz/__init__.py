"""Fuzzers for the parsers of foreign input.

`make fuzz` runs them; `make test` runs them for a moment.
"""
