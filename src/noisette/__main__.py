"""``python -m noisette``."""

from noisette.app.commands import main

if __name__ == "__main__":
    main()
