"""Builds sessions from the arguments of a program or from the configuration.

This is the only package that chooses concrete classes, such as the implementation of a model.
"""
