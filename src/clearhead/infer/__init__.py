"""Texts → answers: a loaded model that can be asked, and how well it answers a file."""
