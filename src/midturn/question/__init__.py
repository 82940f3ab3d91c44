"""Questions, forms and answers: written, checked, kept, walked. All pure."""
