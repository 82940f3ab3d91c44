"""Conversations of `jp`, a command-line tool with a similar log: read as they are, imported, and exported for it."""
