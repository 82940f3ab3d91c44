"""Prompts line by line, for dumb terminals and screen readers: each is a dialogue that yields what to say and is sent lines."""
