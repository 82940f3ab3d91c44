"""Prompts as pure presenters: they receive keys and return rows, without a terminal."""
