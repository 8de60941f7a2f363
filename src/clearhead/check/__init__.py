"""Does a model keep its promises? `verify` runs the laws on the user's own machine and reports figures."""
