"""The record of a conversation: its events, their bytes, and the views of it. All pure, all linear in their input."""
