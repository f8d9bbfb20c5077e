"""The compiled parts (Cython). All the rest of the build is in pyproject.toml.

They have no form in Python, so the build fails where there is no compiler.
"""

import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

NEEDS = "teia has compiled parts: install a C compiler and Python's headers (Debian: apt-get install gcc python3-dev)"


class BuildExtensions(build_ext):
    """Compile, or say what is missing."""

    def run(self) -> None:
        if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
            raise SystemExit(NEEDS)
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(f"{NEEDS}: {error}") from error


parts = [f"teia/parse/scan/{name}.pxi" for name in ("octets", "tags", "shown", "extract", "stack", "open", "anchors")]
compiled = cythonize(
    [
        Extension(
            "teia.lab.simulate._loop",
            ["teia/lab/simulate/_loop.pyx"],
            depends=[f"teia/lab/simulate/{name}.pxi" for name in ("_heap", "_wheel", "_values")],
        ),
        Extension("teia.lib._words", ["teia/lib/_words.pyx"]),
        Extension("teia.lib._sorted", ["teia/lib/_sorted.pyx"]),
        Extension("teia.index._stems", ["teia/index/_stems.pyx"]),
        Extension("teia.search.rank._rows", ["teia/search/rank/_rows.pyx"]),
        Extension("teia.search.show._marks", ["teia/search/show/_marks.pyx"]),
        Extension("teia.parse.scan._scan", ["teia/parse/scan/_scan.pyx"], depends=parts),
    ],
    build_dir="build/cython",
)

setup(ext_modules=compiled, cmdclass={"build_ext": BuildExtensions})
