"""Every command of the documents about several machines is run, with NATS servers and nodes on loopback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from teia.cluster.local import LocalCluster, read_local
from tests.waiting import until

from .test_commands import Reader, described, is_of_cluster, served

OTHER_HOSTS = [f"http://127.0.9.{number}/" for number in range(1, 31)]
"""Seeds that do not answer, so that every cell has several sites: else none could be split."""

UP, DOWN, NODE = "cluster up", "cluster down", "node "


def lines_of(kind: str) -> list[list[str]]:
    """Different commands of the documents that begin with some words."""
    found = [line for _, section in described() for line in section if is_of_cluster(line)]
    return [line for at, line in enumerate(found) if line not in found[:at] and " ".join(line).startswith(kind)]


class Operator(Reader):
    """A reader on whose machine a cluster runs in `try`: its servers and keys are those that the documents name."""

    def local(self) -> LocalCluster:
        return read_local(self.folder / "try")

    def take_over(self) -> None:
        """Put the cluster's key and settings where the documents have them."""
        for name in ("node.key", "search.key"):
            shutil.copy(self.local().key, self.folder / name)
        shutil.copy(self.folder / "try" / "web.toml", self.folder / "web.toml")

    def words(self, line: list[str]) -> list[str]:
        """Put our servers, and a folder for each node, in the place of those of the document."""
        urls, name = self.local().urls, line[line.index("--name") + 1] if "--name" in line else ""
        at = {f"nats://10.0.0.{number}:4222": url for number, url in enumerate(urls, 1)} | {"/srv/teia": name}
        return [at.get(word) or self.adapted(word) for word in line]

    def cells(self) -> list[dict[str, object]]:
        said = self.run("cluster", "status", "--data", "try", "--json")
        return json.loads(said.stdout.splitlines()[-1]).get("cells", []) if said.returncode == 0 else []

    def until_it_crawls(self) -> None:
        until(lambda: bool(cells := self.cells()) and all(cell["keeper"] for cell in cells), "every cell has an owner")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_for_several_machines_works(tmp_path: Path) -> None:
    with served(tmp_path / "site") as site:
        for number, up in enumerate(lines_of(UP)):
            folder = tmp_path / f"machine{number}"
            folder.mkdir()
            operator = Operator(folder, site)
            try:
                assert operator.run(*map(operator.adapted, up), *OTHER_HOSTS).returncode == 0
                if number == 0:
                    _run_all(operator)
            finally:
                for down in lines_of(DOWN):
                    done = operator.run(*down)
            assert done.returncode == 0, done.stderr


def _run_all(operator: Operator) -> None:
    """Run what the documents do with a running cluster, in their order; nodes join and leave again."""
    operator.take_over()
    operator.until_it_crawls()
    until(lambda: "orçamento" in operator.run("search", "orçamento", "--data", "try/node-1").stdout, "a page is found")
    for line in lines_of(""):
        text = " ".join(line)
        if text.startswith((UP, DOWN)):
            continue
        words = operator.words(line)
        done = operator.start_and_stop(*words) if text.startswith(NODE) else operator.run(*words)
        assert done.returncode == 0, f"teia {' '.join(words)}: {done.stdout}{done.stderr}"
