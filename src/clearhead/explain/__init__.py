"""What a model did, as numbers, figures and pages.

The border: it is given what others found and shows it. It opens no user data and computes no model.
"""
