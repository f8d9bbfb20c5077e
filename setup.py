"""The compiled parts (Cython). All the rest of the build is in pyproject.toml.

All are optional: where there is no compiler, teia installs and works without them, only slower.
"""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    compiled = []
else:
    parts = [
        f"teia/parse/scan/{name}.pxi" for name in ("octets", "tags", "shown", "extract", "stack", "open", "anchors")
    ]
    compiled = cythonize(
        [
            Extension(
                "teia.lab.simulate._loop",
                ["teia/lab/simulate/_loop.pyx"],
                depends=[f"teia/lab/simulate/{name}.pxi" for name in ("_heap", "_wheel", "_values")],
            ),
            Extension("teia.lib._words", ["teia/lib/_words.pyx"]),
            Extension("teia.lib._sorted", ["teia/lib/_sorted.pyx"]),
            Extension("teia.search.rank._rows", ["teia/search/rank/_rows.pyx"]),
            Extension("teia.search.show._marks", ["teia/search/show/_marks.pyx"]),
            Extension("teia.parse.scan._scan", ["teia/parse/scan/_scan.pyx"], depends=parts),
        ],
        build_dir="build/cython",
    )
    for extension in compiled:
        extension.optional = True  # said before, it would be lost on the way

setup(ext_modules=compiled)
