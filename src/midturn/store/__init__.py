"""Conversations on disk (spec 7)."""
