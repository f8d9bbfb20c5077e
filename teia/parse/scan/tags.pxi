# What the tags are: what each does to the tree (its kind), and what else there is to it (its traits). The traits that
# concern the text were found by trying each tag on the extractor; tests/parse/test_scan.py tries them all again.

cdef enum:  # kinds, by what a start tag does; their order is made use of
    ORDINARY, FORMATTING, DRAWN
    ANCHOR
    BLOCK, HEADING, ITEM, TERM, FORM, TABLE
    BUTTON, BOUNDED, NOSCRIPT, RUBY, OPTION, GROUP, SELECT
    VOID, RULE, RAW
    CAPTION, COLUMNS, COLUMN, ROWS, ROW, CELL
    HTML, HEAD, BODY
    DRAWING
    REFUSED

cdef enum:  # traits, as bits
    SPECIAL = 1  # ends the search of an end tag for its element
    SCOPE = 2  # what lies outside of it is out of scope
    BUTTONS = 4  # so it is for paragraphs
    LISTS = 8  # so it is for items; a list
    LISTED = 16  # an item of a list
    PASSED = 32  # special, but passed over by an item that looks for the one before it
    IMPLIED = 64  # its end may be left out
    STRUCTURE = 128  # the part of a table in which no text may stand
    BREAK = 256  # on a line of its own
    GLUE = 512  # with blanks around it, where words would run together
    HIDDEN = 1024  # no text for readers
    VERBATIM = 2048  # its line ends are line ends
    IN_HEAD = 4096  # does not end the head
    IN_NOSCRIPT = 8192  # nor a `noscript` in it
    REMEMBERED = 16384  # has attributes that somebody asks for

_TAGS = (
    (FORMATTING, 0, "b big code em font i s small strike strong tt u"),
    (ANCHOR, REMEMBERED, "a"),
    (ORDINARY, 0, "span abbr acronym bdi bdo cite data datalist del dfn ins kbd map mark meter output picture "
                  "progress q ruby samp slot sub sup time var"),
    (ORDINARY, HIDDEN, "label"),
    (ORDINARY, GLUE, "audio canvas legend video"),
    (BLOCK, SPECIAL | BREAK, "article aside blockquote center details dl fieldset figcaption figure footer header "
                             "hgroup main nav section"),
    (BLOCK, SPECIAL | BREAK | PASSED, "address div"),
    (BLOCK, SPECIAL | BREAK | PASSED | IMPLIED, "p"),
    (BLOCK, SPECIAL | BREAK | LISTS, "ol ul"),
    (BLOCK, SPECIAL | BREAK | VERBATIM, "pre"),
    (BLOCK, SPECIAL, "dir menu"),
    (BLOCK, 0, "dialog"),
    (BLOCK, SPECIAL | GLUE, "summary"),
    (HEADING, SPECIAL | BREAK, "h1 h2 h3 h4 h5 h6"),
    (ITEM, SPECIAL | BREAK | IMPLIED | LISTED, "li"),
    (TERM, SPECIAL | BREAK | IMPLIED, "dd dt"),
    (FORM, SPECIAL | BREAK, "form"),
    (TABLE, SPECIAL | SCOPE | STRUCTURE | BREAK, "table"),
    (BUTTON, SPECIAL | BUTTONS | HIDDEN, "button"),
    (BOUNDED, SPECIAL | SCOPE | GLUE, "object"),
    (NOSCRIPT, SPECIAL | GLUE | IN_HEAD, "noscript"),
    (RUBY, IMPLIED, "rp rt"),
    (OPTION, IMPLIED | HIDDEN, "option"),
    (GROUP, IMPLIED, "optgroup"),
    (SELECT, SPECIAL | HIDDEN, "select"),
    (VOID, BREAK, "br"),
    (VOID, 0, "embed param source track wbr"),
    (VOID, REMEMBERED, "area img input"),
    (VOID, IN_HEAD | REMEMBERED, "base"),
    (VOID, IN_HEAD | IN_NOSCRIPT | REMEMBERED, "link meta"),
    (VOID, IN_HEAD | IN_NOSCRIPT, "basefont bgsound"),
    (RULE, BREAK, "hr"),
    (RAW, IN_HEAD, "script title"),
    (RAW, IN_HEAD | IN_NOSCRIPT, "style"),
    (RAW, REMEMBERED, "iframe"),
    (RAW, 0, "textarea"),
    (CAPTION, SPECIAL | SCOPE | GLUE, "caption"),
    (COLUMNS, SPECIAL | STRUCTURE, "colgroup"),
    (COLUMN, SPECIAL, "col"),
    (ROWS, SPECIAL | STRUCTURE, "tbody tfoot thead"),
    (ROW, SPECIAL | STRUCTURE | BREAK, "tr"),
    (CELL, SPECIAL | SCOPE | GLUE, "td th"),
    (HTML, REMEMBERED, "html"),
    (HEAD, 0, "head"),
    (BODY, SPECIAL, "body"),
    (DRAWING, 0, "svg"),
    (DRAWN, 0, "animate circle clippath defs ellipse g line lineargradient marker mask path pattern polygon polyline "
               "radialgradient rect stop symbol tspan use"),
    (DRAWN, GLUE, "text svg/title"),
    (REFUSED, 0, "applet frame frameset image keygen listing marquee math menuitem nobr noembed noframes plaintext rb "
                 "rtc template xmp"),
)
"""`svg/title`, which no tag can be called, is a title in a drawing."""

cdef enum:
    MOST_TAGS = 256

cdef int KIND[MOST_TAGS]
cdef int TRAITS[MOST_TAGS]
cdef list TAG_NAMES = [""]
"""By number. 0 is every tag that is not in the table: an ordinary one."""


def _fill_tags():
    for kind, traits, names in _TAGS:
        for name in names.split():
            KIND[len(TAG_NAMES)] = kind
            TRAITS[len(TAG_NAMES)] = traits
            TAG_NAMES.append(name)


_fill_tags()
cdef Names TAGS = Names(TAG_NAMES[1:])

cdef int A = TAG_NAMES.index("a"), AREA = TAG_NAMES.index("area"), BASE = TAG_NAMES.index("base")
cdef int BODY_TAG = TAG_NAMES.index("body"), BR = TAG_NAMES.index("br"), COLGROUP = TAG_NAMES.index("colgroup")
cdef int H1 = TAG_NAMES.index("h1"), H3 = TAG_NAMES.index("h3"), IFRAME = TAG_NAMES.index("iframe")
cdef int IMG = TAG_NAMES.index("img"), INPUT = TAG_NAMES.index("input"), LINK = TAG_NAMES.index("link")
cdef int META = TAG_NAMES.index("meta"), P = TAG_NAMES.index("p"), RUBY_TAG = TAG_NAMES.index("ruby")
cdef int SCRIPT = TAG_NAMES.index("script"), STYLE = TAG_NAMES.index("style"), SVG_TITLE = TAG_NAMES.index("svg/title")
cdef int TABLE_TAG = TAG_NAMES.index("table"), TBODY = TAG_NAMES.index("tbody"), TITLE_TAG = TAG_NAMES.index("title")
cdef int TEXTAREA = TAG_NAMES.index("textarea"), TR = TAG_NAMES.index("tr")

cdef enum:  # attributes that somebody asks for
    HREF, REL, SRC, CONTENT, NAME, PROPERTY, ITEMPROP, HTTP_EQUIV, LANG, XML_LANG, ALT, TYPE, TITLE, ATTRIBUTES

_ATTRIBUTES = ("href", "rel", "src", "content", "name", "property", "itemprop", "http-equiv", "lang", "xml:lang", "alt",
               "type", "title")
cdef Names KNOWN_ATTRIBUTES = Names(_ATTRIBUTES)
cdef dict ATTRIBUTE_NUMBERS = {name: number for number, name in enumerate(_ATTRIBUTES)}
