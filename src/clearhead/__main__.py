"""`python -m clearhead` and the command `clearhead` are the command line, which may be stopped from the
beginning of its imports on."""

import signal
import sys


def main() -> None:
    """Run one command and exit with its status; 130 where Ctrl-C has stopped it."""
    try:
        from clearhead.app.cli import main as run

        run()
    except KeyboardInterrupt:
        over()
        print("clearhead: stopped", file=sys.stderr)
        sys.exit(130)
    finally:
        over()


def over() -> None:
    """All is said and done: a Ctrl-C close behind the first, or while Python leaves, has nothing to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
