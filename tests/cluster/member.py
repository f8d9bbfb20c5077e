"""A node in a process of its own that writes to the cells it keeps, for tests that stop and kill it.

Prints a JSON line for every commit, and for whatever else becomes of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from teia.clock import WallClock
from teia.cluster.cells.log import CellLost
from teia.cluster.cells.owner import CellOwner
from teia.cluster.members.join import join
from teia.cluster.members.session import Pace
from teia.cluster.nats.wire import connect

CELLS = 4


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def main(urls: str, key: str, collection: str, name: str, pace: str, replicas: str) -> None:
    clock = WallClock()
    wire = await connect(urls.split(","), Path(key), name, answer_s=1.0)
    lost = asyncio.Event()
    owners: list[CellOwner] = []

    def forget(why: str) -> None:
        owners[0].drop_all()
        say(lost=why)
        lost.set()

    session = await join(wire, clock, name, forget, pace=Pace(*map(float, pace.split(","))), replicas=int(replicas))
    say(joined=session.instance)
    owner = CellOwner(wire, clock, session, collection, range(CELLS), lambda cell, alive: sorted(alive))
    owners.append(owner)
    tending = asyncio.create_task(owner.run(lambda cell: say(taken=cell)))
    while not lost.is_set():
        for cell, log in list(owner.owned.items()):
            if not owner.may_fetch(cell):
                continue
            try:
                say(cell=cell, epoch=log.epoch, seq=await log.append(name.encode()))
            except CellLost as error:
                say(refused=str(error))
                owner.owned.pop(cell, None)
        await asyncio.sleep(0.05)  # the pace of its commits
    tending.cancel()
    await wire.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
