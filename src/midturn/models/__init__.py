"""Language models behind one interface: provider models, scripted models and function models, with
retries.
"""
