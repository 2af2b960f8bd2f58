"""The command `clusterfug`, and `python -m clusterfug`. Ctrl-C during imports ends in one line, too."""

import io
import os
import signal
import sys
from typing import Any

INTERRUPTED = 130
MESSAGE = "clusterfug: interrupted; no output was written"


def main() -> None:
    """Run the command line."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # the command was started with it closed
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:  # otherwise SIGINT is ignored, and stays so
        signal.signal(signal.SIGINT, _exit)
    from clusterfug.cli import main as run
    from clusterfug.execution.threads import keep_interrupts

    if interruptible:
        keep_interrupts()
    try:
        run()
    except SystemExit as end:
        if interruptible and end.code != INTERRUPTED:  # all is written and said
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


def _exit(*_: Any) -> None:
    """End the process at once: nothing has begun, and an error in an import need not arrive here."""
    print(MESSAGE, file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
