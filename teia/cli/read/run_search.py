"""The work of `teia search` without typer and rich, which take longer to import than a search takes.

    words of the command line -> request -> answer of the folder's server, or our own -> standard output

`parse_quickly` recognises the plain forms of the command. All others, wrong ones included, are left to the function in
search.py, which ends in the same `print_answer`.
"""

from __future__ import annotations

import os

from teia.web.local_socket import ask_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from teia.cluster.search.open import OpenedSearch

LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE")
MAX_RESULTS = 100
FLAGS: dict[str, tuple[str, Any]] = {
    "--explain": ("explain", True),
    "--facets": ("facets", True),
    "--verbatim": ("verbatim", True),
    "--json": ("json", True),
    "--expand": ("expand", True),
    "--no-expand": ("expand", False),
}
TEXTS = {"--data": "data", "--collection": "collection", "--lang": "language", "--language": "language"}
NUMBERS = {"-n": ("n", 1, MAX_RESULTS), "--offset": ("offset", 0, 999_999_999)}


def make_request(
    query: str,
    *,
    n: int = 10,
    offset: int = 0,
    collection: str | None = None,
    explain: bool = False,
    facets: bool = False,
    language: str | None = None,
    expand: bool | None = None,
    verbatim: bool = False,
    json: bool = False,
) -> dict[str, Any]:
    """Return a request (indexer/answer_request.py), with the locale of this process."""
    request = dict(locals())
    request["locale"] = {name: os.environ[name] for name in LOCALE if name in os.environ}
    return request


def parse_quickly(words: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the data folder and the request of the words behind `teia search`; None if they are not a plain search.

    Only what typer reads in the same way is accepted: long options with a value of their own, none of them twice.
    """
    chosen: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word in FLAGS:
            name, value = FLAGS[word]
        else:
            name, value = _with_value(word, rest)
        if not name or name in chosen:
            return None
        chosen[name] = value
    if "query" not in chosen or "data" not in chosen or "_TEIA_COMPLETE" in os.environ:
        return None
    return chosen.pop("data"), make_request(**chosen)


def _with_value(word: str, rest: Iterator[str]) -> tuple[str, Any]:
    """Return the name and the value of an option, or of the query; an empty name for anything else."""
    if word not in TEXTS and word not in NUMBERS:
        return ("query", word) if word and not word.startswith("-") else ("", None)
    value = next(rest, "")
    if word in TEXTS:
        return (TEXTS[word], value) if value and not value.startswith("-") else ("", None)
    name, least, most = NUMBERS[word]
    is_number = value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most
    return (name, int(value)) if is_number else ("", None)


def answer_here_or_there(data: str | Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the server of a data folder, or else our own."""
    # A cluster that `teia cluster up` started is searched through its nodes.
    if not os.path.exists(os.path.join(data, "up.json")):  # noqa: PTH110, PTH118
        answer = ask_server(data, request)
        if answer is not None:
            return answer
    from pathlib import Path

    from teia.clock import WallClock
    from teia.indexer.answer_request import answer_request

    clock = WallClock()
    with open_folder(Path(data), request["collection"]) as opened:
        return answer_request(opened, request, clock)


def open_folder(data: Path, collection: str | None) -> OpenedSearch:
    """Open the search of a folder, or of the cluster that runs in it."""
    from teia.clock import WallClock

    clock = WallClock()
    if (data / "up.json").exists():
        from pathlib import Path

        from teia.cluster.local import read_local
        from teia.cluster.search.ask_nodes import ClusterSearch

        local = read_local(data)
        return ClusterSearch(local.urls, Path(local.key), collection or local.collection, clock)
    from teia.collections.stored_settings import choose
    from teia.store.root import open_root

    root = open_root(data)
    name = choose(root, collection)
    # A node of a cluster wrote this file; while the node runs, all nodes are searched.
    if (root.path / name / "search.json").exists():
        from teia.cluster.search.open import open_search

        return open_search(root, [name], clock)
    from teia.indexer.open_search import CollectionSearch

    return CollectionSearch(root, [name], clock)


def print_answer(answer: Mapping[str, Any]) -> None:
    """Print an answer to a request: its JSON object, or its blocks of text."""
    from teia.cli.output import print_blocks, print_json, printable, progress_console

    if "json" in answer:
        print_json(answer["json"])
        return
    # To standard error: a pipe gets results alone.
    for warning in answer["warnings"]:
        progress_console().print(printable(warning), markup=False, soft_wrap=True)
    print_blocks(answer["blocks"])
