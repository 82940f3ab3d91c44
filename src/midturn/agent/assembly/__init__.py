"""Builds sessions from a program's arguments or from the configuration.

This is the only package that chooses concrete classes, such as the implementation of a model.
"""
