"""The state machine of a turn.

It takes inputs as values and returns effects as values, in order.
"""
