"""Latent semantics: a small boost for pages on the same subject in other words, without a neural model (F10).

Pages are rows of weighted stems. The hundred strongest axes of that matrix (a truncated SVD) put words with similar
contexts close together. A page's position on these axes takes a hundred octets, and its similarity to a query is one
product. It only re-orders the pages that the words have found (formula.py): as a search of its own it is weak.

    addition = 0.4 x cosine of the page and the query + 0.15 x (mean score of similar pages - score)

- The query's position is that of its words and, with the same weight, of the ten best pages by text: feedback, which
  needs no second search.
- A page takes some of its score from the ten pages that are most similar to it among those found: pages on one
  subject answer the same queries.

A model is trained from the pages of the index (train_semantic.py), in the background; until then, and for
collections too small for it, there is none and nothing is added. So it is where held-back titles are found worse with
it. Positions belong to one model: with another they would mean nothing.

    FOLDER/current.json    the version in use, and whether it is to be used
    FOLDER/<version>/      stems.txt, weights.npy, axes.npy, keys.npy (sorted), places.npy
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from teia.durable import disk_errors, write_atomically
from teia.errors import CorruptFile
from teia.search.query.analysis import stem_of
from teia.search.rank.formula import Keys, Meaning, Weights
from teia.search.rank.rows import Floats

VERSION = 2
CURRENT = "current.json"
FEEDBACK_PAGES = 10
NEIGHBOURS = 10

Vectors: TypeAlias = NDArray[np.float32]
Octets: TypeAlias = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Model:
    """Axes, and the positions of stems and pages on them. `pages` is their number when the model was trained.

    Positions are octets, each row with a scale of its own. For stems it is part of their `weights`, with their idfs;
    for pages it says nothing, because their positions have length 1.

    `is_helpful` is false if held-back titles were found worse with the model: then it adds nothing.
    """

    stems: dict[str, int]
    weights: Vectors
    axes: Octets
    keys: Keys
    vectors: Octets
    is_helpful: bool = True

    @property
    def pages(self) -> int:
        return len(self.keys)

    def meaning(self, words: Iterable[str], weights: Weights) -> Meaning | None:
        """Return the additions to the scores of pages for these words; None if the model knows none of them."""
        query = self.position_of(words) if self.is_helpful else None
        if query is None:
            return None

        def add(keys: Keys, scores: Floats) -> Floats:
            vectors, known = self.positions(keys)
            added = np.zeros(len(keys))
            added[known] = add_meaning(scores[known], vectors[known], query, weights)
            # With 0, every page added since the training would fall behind the others.
            added[~known] = _median(added[known]) if known.any() else 0.0
            return added

        return add

    def position_of(self, words: Iterable[str]) -> Vectors | None:
        """Return the position of a query's words, of length 1; None if the model knows none of them."""
        counts = Counter(stem for word in words if (stem := stem_of(word)) in self.stems)
        if not counts:
            return None
        rows = [self.stems[stem] for stem in counts]
        weights = self.weights[rows] * np.array(list(counts.values()), np.float32)
        vector = weights @ self.axes[rows].astype(np.float32)
        length = float(np.linalg.norm(vector))
        return vector / length if length else None

    def positions(self, keys: Keys) -> tuple[Vectors, NDArray[np.bool_]]:
        """Return the positions of pages, and which of the pages have one."""
        if not len(self.keys):
            return np.zeros((len(keys), 0), np.float32), np.zeros(len(keys), bool)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        vectors = self.vectors[at].astype(np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0)
        return vectors, self.keys[at] == keys


def add_meaning(scores: Floats, pages: Vectors, query: Vectors, weights: Weights) -> Floats:
    """Return the additions to scores, the best of which is about 1; `pages` and `query` are positions of length 1."""
    # 1. The best pages show what the query means.
    best = np.argsort(-scores, kind="stable")[:FEEDBACK_PAGES]
    centre = scores[best] @ pages[best]
    length = float(np.linalg.norm(centre))
    meant = query + weights.feedback * centre / length if length else query
    added: Floats = weights.semantics * (pages @ (meant / (float(np.linalg.norm(meant)) or 1.0)))
    # 2. Each page takes a part of its score from the pages most similar to it.
    likeness = np.maximum(pages @ pages.T, 0.0)
    np.fill_diagonal(likeness, 0.0)
    if len(scores) > NEIGHBOURS:
        least = np.partition(likeness, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS, None]
        likeness[likeness < least] = 0.0
    sums = likeness.sum(axis=1)
    whole = scores + added
    around = np.where(sums > 0, likeness @ whole / np.maximum(sums, 1e-9), whole)
    return added + weights.neighbours * (around - whole)


# ---- on disk --------------------------------------------------------------------------------------------------------


def save(model: Model, folder: Path, made_s: float) -> None:
    """Store a model in place of an existing one; readers see the old one or the new one."""
    name = f"{int(made_s * 1000):x}"
    version = folder / name
    current = {"version": VERSION, "folder": name, "helpful": model.is_helpful}
    with disk_errors(folder, "written"):
        version.mkdir(parents=True, exist_ok=True)
        (version / "stems.txt").write_text("\n".join(model.stems), "utf-8")
        for part, file in _FILES.items():
            np.save(version / f"{file}.npy", getattr(model, part), allow_pickle=False)
        # Readers follow current.json, so it is written last, and old versions are deleted after it.
        write_atomically(folder / CURRENT, json.dumps(current).encode())
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
        is_helpful = bool(current["helpful"])
        stems = (version / "stems.txt").read_text("utf-8").split("\n")
        mapped = {
            part: np.load(version / f"{file}.npy", mmap_mode="r", allow_pickle=False) for part, file in _FILES.items()
        }
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise CorruptFile(path, f"the semantic model cannot be read ({error}); delete {folder}") from error
    return Model({stem: row for row, stem in enumerate(stems)}, **mapped, is_helpful=is_helpful)


_FILES = {"weights": "weights", "axes": "axes", "keys": "keys", "vectors": "places"}
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


def _median(values: Floats) -> float:
    """Return the median; numpy's own loads its masked arrays, an eighth of the time of `teia search`."""
    ordered, size = np.sort(values), len(values)
    return float(ordered[(size - 1) // 2] + ordered[size // 2]) / 2
