"""Runs turns: performs the effects that the state machine requests, and reports the results as
inputs. All decisions are made by the state machine.
"""
