"""Separation of a tool's process from its user: its reach, its view, and how it is recognized."""
