"""The frame around every request.

installation  one installation, as every route sees it
auth          authentication and authorisation
headers       security headers and checks before any route
connections   time and number limits of connections
json_routes   a page and its JSON route from one function
templates     templates in the reader's language
errors        errors as a page for people and as JSON for programs
preferences   language, theme, density and time zone of a reader
atom          a subscription's feed
tour          things to try in a demonstration
headline      the running crawls and open alerts in the page header
"""
