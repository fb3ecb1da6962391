"""``python -m noisette``, and the command ``noisette``."""

import sys

from noisette import _scikit

_NEED_SCIKIT = {"audit", "--public"}
"""Commands that hand estimators to scikit-learn, or to others."""


def main() -> None:
    """Run the command line, without scikit-learn wherever nobody else sees an estimator."""
    from noisette.app.commands import main as run

    _scikit.alone = not _NEED_SCIKIT & set(sys.argv)
    run()


if __name__ == "__main__":
    main()
