"""The lab's control port: the truth about the world, by HTTP and in JSON.

It is a `Responder` like a world, so it uses the same kind of sockets. But it is not part of the world: no page links
to it, and its requests are not logged. Programs that measure a crawl get from it the expected results of the crawl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qs

import msgspec

from teia.clock import from_iso, iso_utc
from teia.errors import LabError
from teia.lab.world import truth
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.lab.world.world import World

MOST_FIELDS = 16
_JSON = b"Content-Type: application/json\r\nCache-Control: no-store\r\n"


class RefusedRequest(Exception):
    """A request that is answered with a status other than 200; never leaves this module."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Params = Mapping[str, str]


class LabControl:
    """Answers requests for facts about a world. Times are wall times in ISO 8601 unless a key names a unit."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pages: Mapping[str, Callable[[Params, float], object]] = {
            "/": self._contents,
            "/now": self._now,
            "/hosts": self._hosts,
            "/truth": self._truth,
        }

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        path, _, query = request.target.partition("?")
        try:
            if path not in self._pages:
                raise RefusedRequest(404, f"nothing at {path}; available: {' '.join(self._pages)}")
            status, found = 200, self._pages[path](_parse_query(query), now_s)
        except RefusedRequest as refused:
            status, found = refused.status, {"error": str(refused)}
        return WorldAnswer(status, _JSON, msgspec.json.encode(found) + b"\n")

    def _contents(self, _params: Params, _now_s: float) -> object:
        world = self._world
        return {
            "seed": world.spec.seed,
            "hosts": len(world.hosts),
            "pages": world.spec.pages,
            "port": world.port,
            "epoch": iso_utc(world.epoch_s),
            "time_factor": world.spec.time_factor,
            "seeds": world.seeds(),
            "paths": {
                "/now": "the real time and the time of the generated web",
                "/hosts": "all servers: name, address, pages",
                "/truth?url=URL": "a page and the times of its changes until now, or until &until=TIME",
            },
        }

    def _now(self, _params: Params, now_s: float) -> object:
        return {"now": iso_utc(now_s), "world_days": self._world.days(now_s)}

    def _hosts(self, _params: Params, _now_s: float) -> object:
        hosts = [
            {"host": host.name, "aliases": host.aliases, "address": host.address, "pages": host.size}
            for host in self._world.hosts
        ]
        return {"hosts": hosts}

    def _truth(self, params: Params, now_s: float) -> object:
        url = params.get("url")
        if not url:
            raise RefusedRequest(400, "missing page: /truth?url=URL, with the URL percent-encoded")
        try:
            until_s = from_iso(params["until"]) if "until" in params else now_s
        except ValueError:
            raise RefusedRequest(
                400, f"until={params['until']} is not a time; write it like {iso_utc(now_s)}"
            ) from None
        found = truth.find_line(self._world, url, until_s)
        if found is None:
            raise RefusedRequest(404, f"{url} is not a page of this web")
        return found


def _parse_query(query: str) -> Params:
    try:
        return {key: values[-1] for key, values in parse_qs(query, max_num_fields=MOST_FIELDS).items()}
    except ValueError:
        raise RefusedRequest(400, f"more than {MOST_FIELDS} fields") from None


def write_truth(path: Path, world: World, until_s: float) -> int:
    """Write the lines of `truth.all_lines`, a JSON object each; return the number of lines."""
    encoder = msgspec.json.Encoder()
    count = 0
    try:
        with path.open("wb") as file:
            for count, line in enumerate(truth.all_lines(world, until_s), 1):  # noqa: B007  # the count is the result
                file.write(encoder.encode(line) + b"\n")
    except OSError as error:
        raise LabError(f"cannot write the truth to {path}: {error.strerror}; choose another --truth") from error
    return count
