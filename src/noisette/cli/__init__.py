"""The command line: one command for each thing a person wants to do; `app` declares them."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2, never a traceback."""
    # Imported here, so that `import noisette.cli` stays light.
    from noisette.cli.app import app
    from noisette.errors import NoisetteError

    try:
        app()
    except NoisetteError as error:
        print(f"noisette: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("noisette: stopped.", file=sys.stderr)
        sys.exit(130)
