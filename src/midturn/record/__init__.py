"""The record of a conversation: its events, and what they add up to. All pure, all linear in their input."""
