"""Looks that no model has made: any weights, words and answers."""

from clearhead.explain.lens import Guess, Lens
from clearhead.explain.look import Look, Token, Weights


def look_of(values, *, words=None, guesses=("a", "b"), answers=(), text="a text"):
    """A look with these weights `[layers, heads, tokens, tokens]`."""
    layers, heads, count, _ = values.shape
    words = words or [f"word{place}" for place in range(count)]
    tokens = tuple(Token(word, place, False) for place, word in enumerate(words))
    weights = Weights("self", tokens, tokens, tuple(range(layers)), tuple(range(heads)), values)
    row = tuple(Guess(guess, 1 / len(guesses)) for guess in guesses)
    every = tuple(tuple(row for _ in words) for _ in range(layers + 1))
    lens = Lens("next token", "probability", tuple(words), every)
    return Look("a/model", text, (weights,), lens, answers)
