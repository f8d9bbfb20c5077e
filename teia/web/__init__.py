"""The web interface and the API: what one installation holds, for searchers, operators and researchers.

    app       the routes put together; serve runs it
    site      one installation as all routes see it: root, clock, accounts, opened collections
    twins     a page and its JSON twin from one function, with the role both need
    gate      who is asking, and whether they may
    accounts  users, sessions, tokens and the log of what they did
    supervisor  the crawler that a server looks after
    laboratory/  runs of the lab: child processes, one at a time, and what is kept of them
    drafts    a collection that somebody is drafting; fields has the fields of its form
    pages/    one module per page: its record, how it is made, its address
    rendering templates in two languages; words has numbers and times as people write them

Everything is read from the root as any other process would read it. What changes something goes through the control
table that the crawler looks at, so a web server that dies takes nothing with it.
"""
