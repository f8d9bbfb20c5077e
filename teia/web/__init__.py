"""Web interface and HTTP API of one installation, for searchers, operators and researchers.

app              all routes behind authorisation and security headers; start reading here
events           live pages by server-sent events
serve            `teia serve`: the application on a socket
limits           every limit of the web server
local_socket     the socket at which `teia search` finds the server of its folder
collection_form  the form in which a collection is drafted: fields, settings, errors, effects
access/          Accounts, roles and scopes: the rights of people and programs.
language/        Words, numbers and times in the reader's language.
charts/          Charts as SVG that the server draws.
background/      Work that the server does beside requests.
server/          The frame around every request.
parts/           What several pages show or do.
pages/           One module per page, grouped by what people do with it. No page imports another one.
"""
