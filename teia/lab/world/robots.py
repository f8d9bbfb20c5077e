"""robots.txt of a host (A7): groups, wildcards, Crawl-delay, the sitemap; or none at all.

Besides the host's one excluded section it forbids only paths that do not exist. So obeying it costs a crawler exactly
the pages of kind `excluded`. A *closed* host forbids everything.
"""

from __future__ import annotations

from protego import Protego

from teia.lab.text.prose import LANGUAGES
from teia.lab.world.draws import unit
from teia.lab.world.hosts import WorldHost
from teia.lab.world.spec import WorldSpec

AGENT = "teia"


def robots_txt(spec: WorldSpec, host: WorldHost, sitemap_url: str) -> str:
    """Return the text of a host that has one (`host.robots` is `some` or `closed`)."""
    key = (spec.seed, "robots", host.content)
    if host.robots == "closed":
        return "User-agent: *\nDisallow: /\n"
    private = LANGUAGES[host.language].phrases["private"]
    section = f"/{private[:4]}*/" if unit(*key, "wildcards") < spec.robots.wildcards else f"/{private}/"
    delay = f"Crawl-delay: {spec.robots.crawl_delay_s:g}\n" if unit(*key, "delay") < spec.robots.crawl_delay else ""
    rules = f"Disallow: {section}\nDisallow: /cgi-bin/\nDisallow: /*.bak$\nAllow: /{private}/public/\n"
    groups = [f"User-agent: *\n{rules}{delay}", "User-agent: BadBot\nUser-agent: Leech*\nDisallow: /\n"]
    if unit(*key, "own") < spec.robots.own_group:
        groups.insert(1, f"User-agent: {AGENT}\nDisallow: {section}\n{delay}")
    if host.sitemap != "none":
        groups.append(f"Sitemap: {sitemap_url}\n")
    return f"# {host.title}\n" + "\n".join(groups)


class RobotsPermissions:
    """The permissions of `teia` under a host's robots.txt, decided by protego, not by the world's own knowledge."""

    def __init__(self, host: WorldHost, text: str) -> None:
        self._kind = host.robots
        self._rules = Protego.parse(text) if host.robots in {"some", "closed"} else None

    def allows(self, url: str) -> bool:
        """Tell whether a URL may be fetched; none may if robots.txt itself is unavailable (RFC 9309, 2.3.1.4)."""
        if self._rules is None:
            return self._kind != "broken"
        return bool(self._rules.can_fetch(url, AGENT))
