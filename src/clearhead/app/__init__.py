"""Flags → one call → print. Nothing is computed here."""
