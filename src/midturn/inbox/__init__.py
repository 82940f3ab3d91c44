"""Open questions for every interface: list them, answer them one at a time, send notices, and
resume answered turns.
"""
