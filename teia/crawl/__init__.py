"""One machine: the stages wired together, from seeds to a committed archive.

opening.py   makes a crawler from a data folder and a configuration, and closes it again
engine.py    the loop: whose turn, fetch, read, conclude (begin here)
crawl.py     one collection while it runs: its hosts in memory, what it wants committed
commit.py    the group commit, where a visit becomes true
job.py       what a parse child does with an answer
robots.py    the robots.txt of every origin being visited
judge.py     what an answer means for its URL
focus.py     how relevant a page is to a focused crawl; learning.py and hints.py belong to it (docs/orders.md)
aliases.py   names that are one site (A7); likeness.py is what pages say of it, naming.py what the loop makes of it
soft404.py   probes, and pages that look like their answer (docs/sites.md)
authority.py new PageRank for the queues of a crawl by it
meaning.py   what a configuration means; edits.py, changing.py and reporting.py change it while it runs
listening.py hears what sites say of their pages, heeding.py lets that move due times (docs/signals.md)
refreshing.py  known pages that come again (docs/keep-fresh.md); hostplan.py plans a host, carrying.py carries out other
             policies' plans, weights.py says what matters, yielding.py what gives way, standing.py how fresh it all is
schedule.py  when runs begin (docs/schedules.md); duties.py decides what is due, coordinator.py does it with charges.py,
             rounds.py visits all known pages again, runs.py remembers runs, agenda.py shows it all
orders.py    what people want of collections; resident.py goes by it for `teia serve`, with needed.py, ordering.py and
             removing.py
drafting.py  a collection that somebody drafts; trying.py and effects.py say what its rules would do
depths.py    links of pages that turned out to be nearer to a seed than when they were read (T1)
pruning.py   pages that leave an index because their cell was split
closing.py   CDXJ beside every closed WARC file
cells.py, descriptors.py, logrows.py, messages.py, space.py, visits.py     the small things between them

lookup.py    a collection opened to be read; pageview.py, tracing.py, names.py, graph.py, exporting.py stand on it
importing.py what came from elsewhere; import_warc.py, import_lists.py, captures.py
searching.py a collection opened to be searched
subscribing.py  pages and searches that people watch; noticing.py finds what to tell, delivering.py posts it, hubs.py
             asks hubs, underway.py knows who may be asked, courier.py does all in a process of its own that
             courier_keeper.py looks after
embedding.py the crawler as a part of another program (docs/embedding.md)

`teia.crawl` is also the function of that name: `teia.crawl(["https://example.org/"], data="archive")` calls
`teia.crawl.embedding.crawl`. A package and a function cannot share a name otherwise, so the package can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teia.crawl.summary import Summary

JOB = "teia.crawl.job:read"
"""What parse children do. Named here, where nothing is imported, so that they can be started before anything else."""


class CallablePackage(ModuleType):
    """This package; see the module's text. What a crawl needs is imported when it is called."""

    def __call__(self, *seeds: Any, **settings: Any) -> Summary:
        from teia.crawl.embedding import crawl

        return crawl(*seeds, **settings)


sys.modules[__name__].__class__ = CallablePackage
