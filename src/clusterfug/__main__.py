"""The command `clusterfug`, and `python -m clusterfug`. Ctrl-C during imports ends in one line, too."""

import os
import signal
import sys
from typing import Any

INTERRUPTED = 130
MESSAGE = "clusterfug: interrupted; no output was written"


def main() -> None:
    """Run the command line."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # otherwise SIGINT is ignored, and stays so
        signal.signal(signal.SIGINT, _exit)
    from clusterfug.cli import main as run

    signal.signal(signal.SIGINT, handler)
    run()


def _exit(*_: Any) -> None:
    """End the process at once: nothing has begun, and an error in an import need not arrive here."""
    print(MESSAGE, file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
