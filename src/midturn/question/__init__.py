"""Questions, forms and answers: authoring, validation, serialization and form traversal. Pure
code without I/O.
"""
