"""Latent semantics: a small boost for pages on the same subject in other words, without a neural model (F10).

Pages are rows of weighted stems. The hundred strongest axes of that matrix (a truncated SVD) put words with similar
contexts close together. A page's position on these axes takes two hundred bytes, and its similarity to a query is
one product. It only re-orders the pages that the words have found (formula.py): as a search of its own it is weak.

A model is trained from the pages of the index (train_semantic.py), in the background; until then, and for
collections too small for it, there is none and nothing is added. Positions belong to one model: with another they
would mean nothing.

    FOLDER/current.json    the version in use
    FOLDER/<version>/      stems.txt, idfs.npy, axes.npy, keys.npy (sorted), places.npy
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from teia.durable import disk_errors, write_atomically
from teia.errors import CorruptFile
from teia.search.query.analysis import stem_of
from teia.search.rank.formula import Keys, Similarity
from teia.search.rank.rows import Floats

VERSION = 1
CURRENT = "current.json"


@dataclass(frozen=True, slots=True)
class Model:
    """Axes, and the positions of stems and pages on them. `pages` is their number when the model was trained."""

    stems: dict[str, int]
    idfs: NDArray[np.float32]
    axes: NDArray[np.float32]
    keys: Keys
    vectors: NDArray[np.float16]

    @property
    def pages(self) -> int:
        return len(self.keys)

    def similarity(self, words: Iterable[str]) -> Similarity | None:
        """Return the similarity of pages to these words; None if the model knows none of them."""
        counts = Counter(stem for word in words if (stem := stem_of(word)) in self.stems)
        if not counts:
            return None
        rows = [self.stems[stem] for stem in counts]
        weights = self.idfs[rows] * np.array(list(counts.values()), np.float32)
        vector = weights @ self.axes[rows]
        length = float(np.linalg.norm(vector))
        if length == 0:
            return None
        return lambda keys: self._cosines(keys, vector / length)

    def _cosines(self, keys: Keys, vector: NDArray[np.float32]) -> Floats:
        """Return the cosines of pages; a page added after the training gets the median of the others."""
        at = np.minimum(np.searchsorted(self.keys, keys), max(0, len(self.keys) - 1))
        known = self.keys[at] == keys if len(self.keys) else np.zeros(len(keys), bool)
        cosines = np.zeros(len(keys))
        cosines[known] = self.vectors[at[known]].astype(np.float32) @ vector
        # With 0, every page added since the training would fall behind the others.
        cosines[~known] = np.median(cosines[known]) if known.any() else 0.0
        return cosines


# ---- on disk --------------------------------------------------------------------------------------------------------


def save(model: Model, folder: Path, made_s: float) -> None:
    """Store a model in place of an existing one; readers see the old one or the new one."""
    name = f"{int(made_s * 1000):x}"
    version = folder / name
    with disk_errors(folder, "written"):
        version.mkdir(parents=True, exist_ok=True)
        (version / "stems.txt").write_text("\n".join(model.stems), "utf-8")
        for part, file in _FILES.items():
            np.save(version / f"{file}.npy", getattr(model, part), allow_pickle=False)
        # Readers follow current.json, so it is written last, and old versions are deleted after it.
        write_atomically(folder / CURRENT, json.dumps({"version": VERSION, "folder": name}).encode())
        for other in folder.iterdir():
            if other.is_dir() and other.name != name:
                shutil.rmtree(other, ignore_errors=True)


def load(folder: Path) -> Model | None:
    """Return the current model; None if there is none, or only one of another version."""
    path = folder / CURRENT
    try:
        current = json.loads(path.read_bytes())
        if current["version"] != VERSION:
            return None
        version = folder / str(current["folder"])
        stems = (version / "stems.txt").read_text("utf-8").split("\n")
        mapped = {
            part: np.load(version / f"{file}.npy", mmap_mode="r", allow_pickle=False) for part, file in _FILES.items()
        }
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise CorruptFile(path, f"the semantic model cannot be read ({error}); delete {folder}") from error
    return Model({stem: row for row, stem in enumerate(stems)}, **mapped)


_FILES = {"idfs": "idfs", "axes": "axes", "keys": "keys", "vectors": "places"}
"""Names of the files with the arrays of a model, by attribute."""


class Models:
    """The model in a folder, reloaded when it is replaced; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._seen: tuple[int, int] | None = None
        self._model: Model | None = None

    def current(self) -> Model | None:
        try:
            status = (self._folder / CURRENT).stat()
        except OSError:
            return None
        with self._lock:
            # An atomic replacement has a new inode, even within one tick of the clock.
            if self._seen != (status.st_ino, status.st_mtime_ns):
                self._seen = status.st_ino, status.st_mtime_ns
                self._model = load(self._folder)
            return self._model
