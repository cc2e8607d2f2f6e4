"""The ``oplab`` command: its sections, and how it ends.

Exit codes: 0 success, 1 not everything passed, 2 the call or the grader is at fault, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from oplab.cli import author, classes, learn, models, project, start
from oplab.course.manifest import SeveralExercises
from oplab.errors import OplabError, printable

_SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
_PASSED_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
}  # what the command does not know is JupyterLab's
# The commands in the order of the help, which is that of a learner's way. A dict is a group of commands.
_DEBUG = {"bisect": models.bisect, "tap": models.tap, "extract": models.extract}
_CLASS = {
    "grade": classes.grade,
    "report": classes.report,
    "regrade": classes.regrade,
    "similar": classes.similar,
    "demo": classes.demo,
}
_GROUPS = {"debug": "Find out why a model is wrong.", "class": "Grade a whole class."}
_SECTIONS: dict[str, dict[str, Callable[..., None] | dict[str, Callable[..., None]]]] = {
    "Exercises": {
        "list": learn.list_,
        "next": learn.next_,
        "hint": learn.hint,
        "check": learn.check,
        "watch": learn.watch,
        "diff": learn.diff,
        "reset": learn.reset,
        "report": learn.report,
    },
    "Models": {
        "show": models.show,
        "parity": models.parity,
        "debug": _DEBUG,
        "capstone": models.capstone,
        "clinic": models.clinic,
    },
    "Your own operator": {"new-operator": project.new_operator, "build": project.build, "test": project.test},
    "Set-up": {
        "init": start.init,
        "lab": start.lab,
        "language": start.language,
        "update": start.update,
        "setup": start.setup,
        "wheelhouse": start.wheelhouse,
        "doctor": learn.doctor,
    },
    "For teachers": {"class": _CLASS},
    "For authors": {
        "new-exercise": author.new_exercise,
        "author": author.author,
        "lint-course": author.lint_course,
        "translate": author.translate,
    },
}


class Stopped(Exception):
    """A command was stopped from outside: typer would turn KeyboardInterrupt into an exit without a message.

    Args:
        code: the exit code, 128 and the number of the signal.
    """

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


class _Signal(KeyboardInterrupt):
    """SIGTERM or SIGHUP: it ends a command in the way of Ctrl-C, so that whatever holds a folder or a process lets go of it."""


@contextlib.contextmanager
def _stopped() -> Iterator[None]:
    try:
        yield
    except _Signal as error:
        raise Stopped(128 + error.args[0]) from None
    except KeyboardInterrupt:
        raise Stopped(128 + signal.SIGINT) from None


class Sections(TyperGroup):
    """The commands under headings, and a signal as :class:`Stopped`."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments. Raises :class:`Stopped`, too: typer imports what it needs here."""
        with _stopped():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run a command.

        Raises:
            Stopped: Ctrl-C, SIGTERM or SIGHUP.
        """
        with _stopped():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each section with a line for each command."""
        width = max(len(name) for commands in _SECTIONS.values() for name in commands)
        for title, commands in _SECTIONS.items():
            helps = {name: self.commands[name].get_short_help_str(formatter.width - width - 4) for name in commands}
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in helps.items()])


app = typer.Typer(cls=Sections, help="Operator Lab: grade your exercises, get hints, look into models.", **_SETTINGS)
for _commands in _SECTIONS.values():
    for _name, _command in _commands.items():
        if isinstance(_command, dict):
            _group = typer.Typer(help=_GROUPS[_name], **_SETTINGS)
            for _inner, _function in _command.items():
                _group.command(_inner)(_function)
            app.add_typer(_group, name=_name)
        else:
            app.command(_name, context_settings=_PASSED_ON if _command is start.lab else None)(_command)


def _stop(number: int, frame: object) -> None:
    """A signal's handler."""
    raise _Signal(number)


class _Printable:
    """A stream whose text is :func:`oplab.errors.printable`: names in models are other people's text. rich, whose colours are codes, too,
    looks for the attribute and writes to the stream itself."""

    def __init__(self, stream: Any):
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write the text."""
        return self.rich_proxied_file.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def main() -> None:
    """Entry point of the ``oplab`` command: a user's mistake is a sentence, never a traceback."""
    with contextlib.redirect_stdout(_Printable(sys.stdout)), contextlib.redirect_stderr(_Printable(sys.stderr)):
        _main()


def _main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not one that `nohup` has it ignore
            signal.signal(number, _stop)
    try:
        app(prog_name="oplab")
    except SeveralExercises as error:
        commands = [shlex.join([id if word == error.name else word for word in sys.argv[1:]]) for id in error.ids]
        fix = (
            f"Type {' or '.join(f'`oplab {command}`' for command in commands)}."
            if error.name in sys.argv
            else error.fix
        )
        print(f"oplab: {error.message}\n{fix}", file=sys.stderr)
        sys.exit(2)
    except OplabError as error:
        print(f"oplab: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, Stopped) as error:
        print("\nStopped. Nothing was lost.", file=sys.stderr)
        sys.exit(error.code if isinstance(error, Stopped) else 128 + signal.SIGINT)
    except BrokenPipeError:  # `oplab list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
