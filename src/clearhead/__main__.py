"""`python -m clearhead` is the command line."""

from clearhead.app.cli import main

if __name__ == "__main__":
    main()
