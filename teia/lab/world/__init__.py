"""A synthetic web: deterministic, and true at every instant.

world             answers for any URL at any time; start reading here
spec              seed and TOML file that a world is made from
draws             random numbers as a function of a key
hosts             names, addresses, sizes, habits
urlspace          URLs of a host
links             links between pages
pages             web pages
markup            tidy and careless markup
media             pictures, PDF files, archives
change            times of page changes (P7)
validators        ETag and Last-Modified
robots            robots.txt
sitemaps          sitemaps
feeds             feeds
site_files        everything a server has besides pages
url_kinds         a page, or one of T8's failures
failure_answers   answers that are not pages
soft404_page      "not found" with status 200
endless_calendar  a calendar without end
trap_park         all known kinds of crawler traps
regions           latency and bandwidth by region
exchange          requests and answers between world and server
truth             versions, links and permissions of every page
"""
