"""Conversations in PostgreSQL. The events are the lines of `events.jsonl`; all other columns can
be computed from them again.
"""
