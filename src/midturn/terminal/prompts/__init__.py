"""Prompts as pure presenters: keys in, rows out."""
