"""Work that the server does beside requests.

crawler           start the crawler of the root, restart it when it dies
audits            audits as child processes, one at a time
fixity            signed archives compared with their digests, now and then
offline_bulk      bulk actions while no crawler runs
alert_messages    messages about new alerts, once each
alert_mail        by e-mail
alert_webhook     to a webhook
cache             slow answers, cached for a while
open_collections  collections kept open for reading between requests
past_searches     searches of collections as they were, kept open for a moment
local_search      searches for commands of this machine
lab/              Runs of the lab that were started from the browser or by the API.
"""
