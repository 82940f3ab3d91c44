"""Selects who answers a question. One pure function applies one table (`table`) to the configured
policies (`policy`).
"""
