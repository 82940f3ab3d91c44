"""Select the responder of a question. One pure function applies one table (`table`) to the
configured policies (`policy`).
"""
