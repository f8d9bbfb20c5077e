"""A world on loopback sockets.

serve       listeners, name server, control port; start reading here
connection  one client's connection
wire        HTTP/1.x as bytes
listen      sockets on loopback addresses
dns         the name server
control     the control port: the truth as JSON
requestlog  the server's own log of requests
witness     politeness judged by that log
process     a lab in a separate process
squid       a real Squid on loopback
"""
