"""Known pages are visited again.

keep_fresh       plan revisits in the commit thread; start reading here
host_plan        the plan for the pages of one host
crawl_budget     one budget for all hosts, divided by the price of a visit (P4, P5)
give_way         pages that give way to more important URLs at the size limit (F2)
ordered_plan     policies that due times on disk cannot express
visit_all_again  the periodic crawl: all pages once more (F2)
apply_signals    shift due times by the changes that sites report
weights          importance of pages (P1)
estimate         the probability that a capture is fresh, from which every figure of freshness is made
freshness        freshness of many captures, with its 95% interval and its upper bound
observe          compare a revisit with the visit before
"""
