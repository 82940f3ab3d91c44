"""Platforms of the tests' own."""
