"""Serving over HTTP: where a server listens, whose connections it takes, and how many of them may keep it busy."""
