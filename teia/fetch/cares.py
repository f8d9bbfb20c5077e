"""One name server, queried through c-ares. Loaded with the first look-up of a name: see dns.py."""

from __future__ import annotations

import aiodns
import pycares

from teia.fetch.destination import Failure

_FAILURES = {
    pycares.errno.ARES_ENOTFOUND: Failure.NO_SUCH_NAME,
    pycares.errno.ARES_ENODATA: Failure.NO_ADDRESS,
    pycares.errno.ARES_EBADNAME: Failure.BAD_NAME,
    pycares.errno.ARES_ETIMEOUT: Failure.TIMEOUT,
}


class NameServer:
    """The configured name server, or those of this machine."""

    def __init__(self, server: str | None, first_try_s: float, tries: int) -> None:
        self._cares = aiodns.DNSResolver([server] if server else None, timeout=first_try_s, tries=tries)

    async def query(self, name: str, kind: str) -> tuple[tuple[str, ...], float, Failure | None]:
        """Query the records of one kind, `A` or `AAAA`: return addresses, their life in seconds, or the failure."""
        try:
            result = await self._cares.query_dns(name, kind)
        except aiodns.error.DNSError as error:
            return (), 0.0, _FAILURES.get(error.args[0], Failure.SERVER)
        addresses = tuple(
            record.data.addr
            for record in result.answer
            if isinstance(record.data, pycares.ARecordData | pycares.AAAARecordData)
        )
        if not addresses:
            return (), 0.0, Failure.NO_ADDRESS
        # The answer holds the CNAME chain too: the shortest TTL of the chain limits the address.
        return addresses, float(min(record.ttl for record in result.answer)), None

    async def close(self) -> None:
        await self._cares.close()
