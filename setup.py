"""What pyproject.toml cannot say: the files that travel in the wheel keep their own place here."""

import ast
import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
FILES = (ROOT / "src" / "noisette" / "_files.py").read_text(encoding="utf-8")
CARRIED = ast.literal_eval(re.findall(r"^CARRIED = ({.*})$", FILES, re.M)[0])


class BuildWithCarriedFiles(build_py):
    """Copy theorems and the example's schema into the wheel; a checkout reads its own."""

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        if not self.editable_mode:
            for name, place in CARRIED.items():
                self.copy_file(str(ROOT / place), str(Path(self.build_lib) / "noisette" / name))


setup(cmdclass={"build_py": BuildWithCarriedFiles})
