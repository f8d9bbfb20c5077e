"""The compiled parts (Cython), and the facts of a build. All the rest of the build is in pyproject.toml.

The compiled parts have no form in Python, so the build fails where there is no compiler. Two builds of one commit give
the same bytes: times come from the commit (or SOURCE_DATE_EPOCH), and no path of the machine enters a file.
"""

import gzip
import json
import os
import subprocess
import sysconfig
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import CCompilerError, ExecError, PlatformError

HERE = Path(__file__).resolve().parent
NEEDS = "teia has compiled parts: install a C compiler and Python's headers (Debian: apt-get install gcc python3-dev)"


def git(*words: str) -> str:
    """Return the output of a git command; empty where there is no git or no repository."""
    try:
        return subprocess.check_output(["git", *words], cwd=HERE, stderr=subprocess.DEVNULL, text=True).strip()  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return ""


def build_facts() -> dict[str, str]:
    """Return the commit and its time: from git, or from the sdist that a checkout made."""
    stored = HERE / "teia" / "build.json"
    if stored.exists():
        return json.loads(stored.read_text("utf-8"))
    commit = git("rev-parse", "--short=12", "HEAD") if (HERE / ".git").exists() else ""
    is_changed = bool(commit and git("status", "--porcelain", "--untracked-files=no"))
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH") or (git("log", "-1", "--format=%ct") if commit else "") or 0)
    date = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"commit": commit + ("+changes" if is_changed else ""), "date": date}


FACTS = build_facts()
EPOCH_S = int(datetime.fromisoformat(FACTS["date"]).timestamp())
# The builder of wheels reads it.
os.environ.setdefault("SOURCE_DATE_EPOCH", str(max(EPOCH_S, 315532800)))  # zip files begin in 1980


def write_facts(package: Path) -> None:
    (package / "build.json").write_text(json.dumps(FACTS) + "\n", "utf-8")


class BuildExtensions(build_ext):
    """Compile, or say what is missing."""

    def run(self) -> None:
        if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
            raise SystemExit(NEEDS)
        made = {each.name: each.sources for each in cythonize(self.extensions, build_dir="build/cython")}
        for each in self.extensions:
            each.sources = made[each.name]
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(f"{NEEDS}: {error}") from error


class BuildModules(build_py):
    """Copy the modules, and write the build's facts beside them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_facts(Path(self.build_lib) / "teia")


class SourceArchive(sdist):
    """An archive of the sources with the build's facts; the same bytes whoever makes it, and when."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_facts(Path(base_dir) / "teia")

    def make_archive(
        self, base_name: str, _format: str, root_dir: str | None = None, base_dir: str | None = None, **_owner: object
    ) -> str:
        """Write NAME.tar.gz, with the entries sorted and without owners and times of the machine."""
        tree, name = Path(root_dir or ".") / str(base_dir), f"{base_name}.tar.gz"
        with (
            Path(name).open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, EPOCH_S) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in [tree, *sorted(tree.rglob("*"))]:
                archive.add(path, path.relative_to(tree.parent), recursive=False, filter=without_machine)
        return name


def without_machine(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = EPOCH_S
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def extension(name: str, parts: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> Extension:
    """Return a compiled module. It has no debug information, which names the folder it was built in."""
    folder, _, stem = name.replace(".", "/").rpartition("/")
    depends = [f"{folder}/{part}.pxi" for part in parts]
    return Extension(name, [f"{folder}/{stem}.pyx"], depends=depends, extra_compile_args=["-g0", *flags])


setup(
    ext_modules=[
        extension("teia.crawler._links"),
        extension("teia.lab.simulate._loop", ("_heap", "_wheel", "_values")),
        extension("teia.lib._words"),
        extension("teia.lib._sorted"),
        extension("teia.index._stems"),
        extension("teia.parse.html._plain"),
        extension("teia.search.rank._rows"),
        # GCC's -O2 makes no vectors of a loop of any length; with them it takes a third of the time.
        extension("teia.search.rank._sparse", flags=("-O3",)),
        extension("teia.search.show._marks"),
        extension("teia.parse.scan._scan", ("octets", "tags", "shown", "extract", "stack", "open", "anchors")),
    ],
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildModules, "sdist": SourceArchive},
)
