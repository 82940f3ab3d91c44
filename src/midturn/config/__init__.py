"""Configuration: files, environment variables and flags, merged in layers and resolved into
frozen settings.
"""
