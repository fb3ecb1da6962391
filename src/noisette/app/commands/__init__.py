"""The command line: one command for each thing a person wants to do; `app` declares them."""

import contextlib
import json
import os
import sys

__all__ = ["main"]

STOPPED, UNPRINTED, FAULT, KEPT = 130, 74, 70, 3
"""Exit codes beside 0 (done) and 2 (a mistake); 70 and 74 are those of sysexits.h.

KEPT is that of a command that did not end as asked, but whose result is paid for and kept.
"""

_WHOLE = "files that the command writes are complete"


def main() -> None:
    """Run the command line; whatever goes wrong is one sentence, never a traceback.

    A traceback may quote a cell of the table, and so may the text of a foreign exception. With
    ``--json`` the sentence is also printed as {"error": ...}, so that a machine can read it.
    """
    # The null device where the caller closed a stream (>&-): nobody wants to read it. Else the next
    # file would get its number, and whatever prints would write into a ledger.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # in this order, so each gets the number it is known by
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    try:
        code, sentence = _kept(*_outcome())
        if sentence and "--json" in sys.argv and code != UNPRINTED:
            with contextlib.suppress(OSError):  # the flush below finds it out again
                print(json.dumps({"error": sentence}))
        try:
            sys.stdout.flush()
        except (OSError, UnicodeEncodeError) as error:
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())  # spares Python a second try
            # a reader who went away (| head) is no fault
            if not isinstance(error, BrokenPipeError) and code != UNPRINTED:
                code, sentence = UNPRINTED, f"the answer could not be printed; {_WHOLE}."
    except (KeyboardInterrupt, MemoryError):  # during the imports, or at the very end
        code, sentence = _kept(STOPPED, "stopped.")
    if sentence:
        from noisette._validate import visible

        print(f"noisette: {visible(sentence)}", file=sys.stderr)
    sys.exit(code)


def _kept(code: int, sentence: str) -> tuple[int, str]:
    """Return how a command ended that was stopped, or failed, after its work was done."""
    finished = getattr(sys.modules.get("noisette.app.commands.console"), "finished", "")
    if not finished or code not in (STOPPED, FAULT):
        return code, sentence
    return KEPT, f"stopped at the very end; {finished}."


def _outcome() -> tuple[int, str]:
    """Run the command; return its exit code and what there is to say."""
    # Imported here, so that `import noisette.app.commands` stays light and Ctrl-C finds a handler.
    from noisette.app.commands import console
    from noisette.app.commands.app import app
    from noisette.app.commands.console import Stopped
    from noisette.errors import NoisetteError

    console.finished = ""
    try:
        app()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
        if code == STOPPED:  # typer's own answer to Ctrl-C, without a word
            return code, "stopped."
        usage = code == 2 and "--json" in sys.argv  # typer has explained it on stderr
        return code, "the command was not understood; see --help." if usage else ""
    except Stopped as stop:
        return stop.code, str(stop)
    except NoisetteError as error:
        return 2, str(error)
    except UnicodeEncodeError:
        return UNPRINTED, (
            "the answer has a character that this terminal cannot show (set "
            f"PYTHONIOENCODING=utf-8); {_WHOLE}."
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        if error.filename is not None:
            return 2, f"{console.readable(os.fsdecode(error.filename))} cannot be used ({reason})."
        return UNPRINTED, f"the answer could not be printed ({reason}); {_WHOLE}."
    except Exception as error:
        if os.environ.get("NOISETTE_DEBUG"):
            raise
        return getattr(error, "exit_code", FAULT), _fault(error)
    return 0, ""


def _fault(error: Exception) -> str:
    """Say where an unforeseen exception came from, without its text, which may quote data."""
    import traceback

    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    return (
        f"a fault in the program ({type(error).__name__} at {frame.f_globals.get('__name__')}, "
        f"line {line}){notes}. Please report it; its text is not shown, for it may quote data "
        "(NOISETTE_DEBUG=1 shows it)."
    )
