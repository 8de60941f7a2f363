"""Grading: does code written by hand compute the published equation and, if not, what was missed?

The idea: from behaviour alone. Each exercise has its equation (from `clearhead.reference`), inputs from
small to
large, laws, and known mistakes: the same computation with one or two things done wrong. An answer that
is wrong
everywhere in the way of a mistake gets that mistake's name, whatever the code looks like.

The border: NumPy and the reference; no torch. The code that is graded runs in a process of its own and sends
numbers as JSON.
"""
