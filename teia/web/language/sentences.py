"""Fixed English sentences of the crawler's modules that pages show in the reader's language (`|translate`).

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
        _("robots.txt could not be fetched, so nothing was requested"),
        _("out of scope"),
        _("media type not allowed"),
        _("larger than the limit"),
        _("timed out"),
        _("host name not found"),
        _("connection failed or interrupted"),
        _("TLS error"),
        _("invalid HTTP response"),
        _("address blocked by the address guard"),
        _("redirect loop"),
        _("looks like a trap"),
        _("budget of its host or site used up"),
        _("its host is an alias of another host, where the page is counted"),
        _("soft 404: answers 200 with the page that the host shows for missing pages"),
        _("stored, but could not be parsed"),
        _("no longer exists"),
        _("removed from the queue by a user"),
        _("internal error"),
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
        *(_("open"), _("queued last"), _("parked")),
        *(_("wire"), _("decoded"), _("frontier"), _("log"), _("index"), _("disk")),
    )


def _notes(_: Callable[[str], str]) -> tuple[str, ...]:
    """Return notes on the methods and limits of reported numbers."""
    return (
        _("Lincoln-Petersen estimate in Chapman's form, computed per host and summed; 95% log-normal interval"),
        _(
            "URLs are counted by the outcome of their last visit. Requests include repeats; URLs that were rejected"
            " without a request (robots, dns) have none."
        ),
        _(
            "The type is detected from the content where it differs from the server's declaration. Wire bytes are"
            " received bytes, including headers; decoded bytes are bodies after decompression."
        ),
        _(
            "Counted are servers with at least one document. For comparison: Tarântula found 80% of the documents"
            " on 8% of the servers."
        ),
        _(
            "Kind: client and server are the HTTP error classes; network means that no response was received;"
            " refused means that the crawler did not fetch or store it; ours is an error of the crawler itself."
            " Each URL is counted by its last outcome."
        ),
        _(
            "Wire: bytes received, including headers. Decoded: bodies after decompression. All other sizes are on"
            " disk now; recent rows of the fetch log are still part of the frontier."
        ),
        _(
            "References are counted in HTML pages, repeated ones each time; nofollow references are counted but not"
            " followed. References to types that are not stored are recognized by file extension and not fetched;"
            " images and style sheets are counted only if page requisites are fetched. Named by lists: entries of"
            " sitemaps and feeds. References to a URL: the number of pages that currently link to each known URL,"
            " each page counted once, as far as links are followed."
        ),
        _("Counted are HTML, text and PDF pages that may be fetched: those stored, and those known and still queued."),
        _(
            "The estimate depends on these assumptions: (1) Being linked and being in the sitemap are independent;"
            " sites list in sitemaps what they also link, so the overlap is too large and the estimate too low. (2)"
            " All pages of a host are equally likely to be found; deep and new pages are not, which also makes it"
            " too low. (3) The site does not change meanwhile, and each page has one URL: duplicate URLs of a page"
            " and queued URLs that turn out to be errors make it too high. (4) Links of pages that only a sitemap"
            " lists count as links. (5) A sitemap that lists everything gives an estimate of what it lists; a page"
            " that is in neither list, on a host without a sitemap, cannot be estimated."
        ),
        _(
            "The interval covers random error only, not violated assumptions. For hosts with a few dozen pages of"
            " which both lists contain less than a third, it contains the true value in less than 95 of 100 cases."
        ),
        _("Parked: the reason why no requests are sent to the host; its URLs stay queued."),
        _("Alias of: the main name of the same site, under which its pages are crawled."),
        _(
            "Given up: URLs with the outcome `trap`. Waiting: URLs queued last, some of which are fetched as a"
            " test. Refused: links that were discarded. A pattern stands for URLs that differ only in numbers (0),"
            " words (w) or tokens (*)."
        ),
    )


def _lab(_: Callable[[str], str]) -> tuple[str, ...]:
    """Return titles and references of experiments (lab/reproduce), and limits of visits (lab/whatif/answer.py)."""
    return (
        _("PSP compared with MP2, M-Wolf and the theoretical best"),
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
        *(_("budget"), _("machine"), _("hosts in parallel"), _("least_s"), _("delays of hosts")),
    )
