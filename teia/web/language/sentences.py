"""Fixed English sentences of the crawler's modules that pages show in the reader's language (`|said`).

They are repeated here because those modules know nothing of languages; a test compares the two
(tests/web/pages/collection/test_reports.py). JSON has them in English.
"""

from __future__ import annotations

from collections.abc import Callable


def sentences(_: Callable[[str], str]) -> tuple[str, ...]:
    """Return all sentences."""
    return (*_words(_), *_notes(_), *_lab(_))


def _words(_: Callable[[str], str]) -> tuple[str, ...]:
    return (
        # outcomes of visits (views/reports/outcomes.py)
        _("excluded by robots.txt"),
        _("robots.txt could not be had, so nothing was asked for"),
        _("not of this collection after all"),
        _("forbidden type"),
        _("larger than the limit"),
        _("took too long"),
        _("its name has no address"),
        _("no connection, or it was cut"),
        _("no secure connection"),
        _("the answer is not HTTP"),
        _("an address that must not be asked"),
        _("redirects that do not end"),
        _("looks like a trap"),
        _("its host or site had its share"),
        _("its host is another name of a site, under which it counts"),
        _("says 200 and shows what the host shows for pages that cannot exist"),
        _("stored, but could not be read"),
        _("no longer there"),
        _("taken out of the queue by a person"),
        _("trouble of our own"),
        # reasons for watching a URL pattern (frontier/traps/suspicion.py, frontier/traps/shapes.py)
        _("pages that say nothing new"),
        _("lists that lead to nothing new"),
        _("pages that only lead to more of their kind"),
        _("another spelling of a known URL"),
        _("a date far from today"),
        _("path segments that repeat"),
        _("a path segment three times in a row"),
        _("a pair of path segments three times in a row"),
        _("path segments that go round three times"),
        _("the same parameter more than eight times in a row"),
        # words in tables
        *(_("client"), _("server"), _("network"), _("refused"), _("ours"), _("other")),
        *(_("link"), _("sitemap"), _("feed"), _("seed"), _("redirect"), _("requisite")),
        *(_("queued"), _("done"), _("failed"), _("excluded")),
        *(_("open"), _("comes last"), _("parked")),
        *(_("wire"), _("decoded"), _("frontier"), _("log"), _("index"), _("disk")),
    )


def _notes(_: Callable[[str], str]) -> tuple[str, ...]:
    """Return notes on the methods and limits of reported numbers."""
    return (
        _("Lincoln-Petersen, Chapman's form, host by host and added up; 95% interval: log-normal"),
        _(
            "count: URLs by what their last visit came to. requests: all that were sent, repeats included; a URL"
            " that was refused without one (robots, dns) has none."
        ),
        _(
            "The type is what the bytes are, where they and the server disagree. wire_bytes include heads, and"
            " are what was received; decoded_bytes are bodies after decompression."
        ),
        _("A server counts if there is a document from it; T8 found 80% of the documents on 8%."),
        _(
            "kind: client and server are HTTP's own classes; network never became an answer; refused is what we"
            " would not fetch or keep; ours is our own trouble. A URL counts by its last outcome."
        ),
        _(
            "wire: received, heads included. decoded: bodies after decompression. The rest is on disk now; rows"
            " of the fetch log that are not rolled out yet lie in the frontier."
        ),
        _(
            "references: of HTML pages, the same one said twice counted twice; nofollow ones are found but not"
            " followed. unindexable: their ending says a type the collection does not keep, so they are not"
            " asked for; images and styles of a page are not counted unless requisites are fetched."
            " named_by_lists: entries of sitemaps and feeds. per_url counts the pages that link to each known URL"
            " now, each once, as far as they are followed."
        ),
        _("Counted are HTML, text and PDF pages that may be fetched: those we have, and those known that still wait."),
        _(
            "The estimate is wrong where its assumptions are: (1) being linked and being in the sitemap must not"
            " depend on each other; sites put into sitemaps what they also link, so the overlap is too large and"
            " the estimate too low. (2) Within a host every page must be as likely to be found as any other;"
            " deep and new pages are not, which again makes it too low. (3) The site must not change meanwhile,"
            " and one page must be one URL: second names of a page and waiting URLs that turn out to be errors"
            " make it too high. (4) Links of pages that only a sitemap names count as links. (5) A sitemap that"
            " lists everything gives an estimate of what it lists, and a page in neither list of a host without"
            " a sitemap is beyond any estimate."
        ),
        _(
            "The interval speaks of chance alone, not of these. For hosts of a few dozen pages of which both"
            " lists have less than a third, even so it holds the truth less than 95 times in 100."
        ),
        _("parked: why the server is left alone; its URLs stay queued."),
        _("alias of: the main name of the same site, under which its pages are crawled."),
        _(
            "given_up: URLs with the outcome `trap`. waiting: they come last, and some are read to find out."
            " refused: links that were not even kept. A pattern stands for URLs that differ in numbers (0),"
            " words (w) or tokens (*) only."
        ),
    )


def _lab(_: Callable[[str], str]) -> tuple[str, ...]:
    """Return titles and references of experiments (lab/reproduce), and limits of visits (lab/whatif/answer.py)."""
    return (
        _("PSP beside MP2, M-Wolf and what nobody can beat"),
        _("Wolf's mix of change processes"),
        _("CoBWeb's session statistics"),
        _("Look-ups over Chord, CAN, Pastry and our circle"),
        _("Isolated, hash, geographic and response-time crawlers"),
        _("Parallel crawlers: firewall, cross-over, exchange"),
        _("The cache parasite"),
        _("Collectors and the rate of collection"),
        _("Tarântula's statuses, servers and documents over time"),
        _("Periodic against incremental crawling"),
        _("FURB's tables of types, space and times"),
        _("FURB's search times"),
        *(_("published"), _("theory"), _("another program")),
        *(_("one process"), _("model"), _("from table 1")),
        *(_("budget"), _("machine"), _("servers at the same time"), _("least_s"), _("rests of hosts")),
    )
