"""The record of a conversation: its events, their bytes, and what they add up to. All pure, all linear in what they get."""
