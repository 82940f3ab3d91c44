"""Conformance suite for framework adapters.

Each story must have the same result with the adapter as in midturn's own loop.
"""
