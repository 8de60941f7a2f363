"""`python -m clearhead` and the command `clearhead` are the command line, which may be stopped from the
beginning of its imports on."""

import sys


def main() -> None:
    """Run one command and exit with its status; 130 where Ctrl-C has stopped it."""
    try:
        from clearhead.app.cli import main as run

        run()
    except KeyboardInterrupt:
        print("clearhead: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
