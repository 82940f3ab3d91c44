"""The only package that names concrete classes: from what a program or a configuration says to a session."""
