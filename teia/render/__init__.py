"""Pages rendered by a browser that has no network of its own (docs/rendering.md).

In come a page's URL and a function that fetches what the page requests; out comes the document that its scripts made.

    program      the browser that is installed
    browser      the browser's process: started in isolation, watched, ended
    devtools     the DevTools protocol over two pipes
    page         one page in a context of its own: requests answered, time limited, scrolled, clicked, read
    page_code    the functions that run in the page, in a world that its own scripts do not see
"""
