"""Conversations in PostgreSQL: the events are the lines of `events.jsonl`, and everything else can be computed from them again."""
