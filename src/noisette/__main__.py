"""``python -m noisette``."""

from noisette.cli import main

if __name__ == "__main__":
    main()
