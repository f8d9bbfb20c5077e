"""Rendering of pages whose scripts bring text or links (docs/rendering.md).

on_demand         rendering that is loaded with the first page that may need it
kinds             which pages are rendered: trials by site, pattern of URLs and scripts
render_visits     the rendering of one collection: pages that wait, verdicts, budget
postponed_pages   pages that do not wait for the trial of their kind
browser_requests  the requests of a page on their way through the crawler's loop, and a memory of their answers
browsers          the browser that all collections share, and the pages in it
"""
