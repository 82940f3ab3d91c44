"""Hooks and bridges for other coding agents. Their questions and permission requests are recorded
in a midturn store, and a person answers them.
"""
