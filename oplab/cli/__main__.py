"""The entry point of ``oplab`` and of ``python -m oplab.cli``: first an answer to Ctrl-C, then what takes a second to import."""

import os
import signal


def main() -> None:
    """Run the command; while its modules are imported, Ctrl-C ends it with one line."""

    def stop(number: int, frame: object) -> None:
        os.write(2, b"\nStopped.\n")
        os._exit(128 + number)

    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background job does not
    if listens:
        signal.signal(signal.SIGINT, stop)
    from oplab.cli.main import main

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    main()
