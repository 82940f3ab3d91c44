"""Conformance suite for framework adapters.

Each story must have the same result with an adapter as with midturn's own agent loop.
"""
