"""Open questions for every interface: list them, answer them one at a time, send notifications, and
resume answered turns.
"""
