"""The state machine of a turn.

`Turn.step` takes one input and returns the effects that the driver must perform, in order.
"""
