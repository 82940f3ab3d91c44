"""Language models with one common interface: provider models, scripted models and function
models, with retries.
"""
