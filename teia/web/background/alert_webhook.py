"""Messages about new alerts to the webhook of `alerts.webhook`, through the address guard.

The body is JSON: `type`, `timestamp` and `data` as in messages of subscriptions (signals/webhook.py), and `text`, the
line that chat programs with incoming webhooks show. The address of the webhook is its own secret, as those programs
give it: it is in no log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from teia.clock import Clock, iso_utc
from teia.config.sections import Config
from teia.crawler.signals_in.outgoing import Poster, is_accepted, refusal_text
from teia.errors import UsageError
from teia.fetch.fetcher import PostBody
from teia.notify.subscriptions import check_webhook
from teia.signals.webhook import MEDIA_TYPE
from teia.views.alerts import Alert, alert_subject

OPENED = "alerts.opened"


def post_alerts(config: Config, clock: Clock, collection: str, alerts: Sequence[Alert], address: str) -> str:
    """Post one message about some alerts; return why the receiver did not accept it."""
    try:
        url = check_webhook(config.alerts.webhook, config)
    except UsageError as error:
        return error.message
    body = PostBody(make_body(collection, alerts, address, clock.now_s()), MEDIA_TYPE)
    return asyncio.run(_post(config, clock, url, body))


def make_body(collection: str, alerts: Sequence[Alert], address: str, now_s: float) -> bytes:
    """Return the message about some alerts, with the address of the page that has their actions."""
    lines = [f"teia: {collection}: {' '.join(alert.message.split())}" for alert in alerts]
    rows = [
        {"kind": alert.kind, "about": alert_subject(alert), "host": alert.host, "message": alert.message}
        for alert in alerts
    ]
    data = {"collection": collection, "address": address, "alerts": rows}
    text = "\n".join([*lines, address])
    return json.dumps({"type": OPENED, "timestamp": iso_utc(now_s), "text": text, "data": data}).encode()


async def _post(config: Config, clock: Clock, url: str, body: PostBody) -> str:
    poster = Poster(config, clock)
    try:
        fetched = await poster.post(url, body)
    finally:
        await poster.close()
    return "" if is_accepted(fetched) else refusal_text(fetched)
