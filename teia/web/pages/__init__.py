"""One module per page, grouped by what people do with it. A page may use what another one shows.

finding/     Searching, and looking at what was found.
collection/  Running a collection.
people/      Accounts.
machine/     The installation and its cluster.
lab/         The lab in the browser.
inbound/     Routes for programs of other sites.
"""
