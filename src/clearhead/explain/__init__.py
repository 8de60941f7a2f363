"""What a model did, as numbers, figures and pages: reports of runs, and a look inside any call.

The border: it watches and changes calls, and shows what it and others found. It opens no user data, learns
nothing, and holds no arithmetic of a model.
"""
