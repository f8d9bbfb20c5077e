"""Markup of pages: tidy, or as careless as much of the web is (T6).

The pieces are %-templates over bytes. The careless ones leave out closing tags and quotes, write tags in capitals and
ampersands unescaped; a link in them is still a link to any browser.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Markup:
    """One way of writing HTML. The comment behind each piece names its arguments."""

    top: bytes  # language, the charset's tag or nothing
    charset: bytes  # charset
    after_title: bytes  # site
    description: bytes  # text
    robots: bytes  # directive
    canonical: bytes  # URL
    feed: bytes  # media type
    head_end: bytes
    banner: bytes  # site
    navigation: bytes  # entries
    crumbs: bytes  # a link to the page above
    headline: bytes  # "by", "on"; then, for each page, title, day, month, year
    picture: bytes  # folder, caption; then number
    subheading: bytes  # text
    paragraphs: tuple[bytes, bytes]  # one passage, or two
    facts: bytes  # three items
    see_also: bytes  # "see also", a link
    list_start: bytes  # heading
    anchor: bytes  # URL, attributes or nothing, text
    path_anchor: bytes  # prefix, ending; then, for each link, section, two slugs, number, and a title in two
    query_anchor: bytes  # prefix, ending; then section, number, and a title in two
    between: bytes  # two entries of a list
    nofollow: bytes
    escapes: bool  # True if ampersands in links are escaped
    list_end: bytes
    aside: bytes  # "advertisement", text, proverb
    footer: bytes  # site, rights, "visits"; the counter follows
    end: bytes


TIDY = Markup(
    top=b'<!DOCTYPE html>\n<html lang="%b">\n<head>\n%b<title>',
    charset=b'<meta charset="%b">\n',
    after_title=b' | %b</title>\n<meta name="viewport" content="width=device-width">\n',
    description=b'<meta name="description" content="%b">\n',
    robots=b'<meta name="robots" content="%b">\n',
    canonical=b'<link rel="canonical" href="%b">\n',
    feed=b'<link rel="alternate" type="%b" href="/feed.xml">\n',
    head_end=b'<link rel="stylesheet" href="/style.css">\n</head>\n<body>\n',
    banner=b'<header>\n<p class="site">%b</p>\n',
    navigation=b"<nav><ul>\n<li>%b</li>\n</ul></nav>\n</header>\n<main>\n",
    crumbs=b'<p class="crumbs">&lt; %b</p>\n',
    headline=b'<article>\n<h1>%%b</h1>\n<p class="byline">%b \x02, %b \x01, %%d %%b %%d</p>\n',
    picture=b'<figure><img src="/%b/%%d.png" width="64" height="48" alt="\x01"><figcaption>%b</figcaption></figure>\n',
    subheading=b"<h2>%b</h2>\n",
    paragraphs=(b"<p>%b</p>\n", b"<p>%b %b</p>\n"),
    facts=b"<ul>\n<li>%b</li>\n<li>%b</li>\n<li>%b</li>\n</ul>\n",
    see_also=b"<p>%b %b.</p>\n",
    list_start=b"<h3>%b</h3>\n<ul>\n<li>",
    anchor=b'<a href="%b"%b>%b</a>',
    path_anchor=b'<a href="%b%%b%%b-%%b-%%d%b">%%b %%b</a>',
    query_anchor=b'<a href="%b%%b%%d%b">%%b %%b</a>',
    between=b"</li>\n<li>",
    escapes=True,
    nofollow=b' rel="nofollow"',
    list_end=b"</li>\n</ul>\n",
    aside=b"</article>\n</main>\n<aside>\n<h3>%b</h3>\n<p>%b</p>\n<blockquote>%b</blockquote>\n</aside>\n",
    footer=b'<footer>\n<p>%b. %b.</p>\n<p class="counter">%b: ',
    end=b"</p>\n</footer>\n</body>\n</html>\n",
)

SLOPPY = Markup(
    top=b"<HTML LANG=%b>\n%b<TITLE>",
    charset=b'<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=%b">\n',
    after_title=b" | %b</TITLE>\n<META NAME=GENERATOR CONTENT=Editor>\n",
    description=b'<META NAME=DESCRIPTION CONTENT="%b">\n',
    robots=b"<META NAME=ROBOTS CONTENT=%b>\n",
    canonical=b"<LINK REL=canonical HREF=%b>\n",
    feed=b"<LINK REL=alternate TYPE=%b HREF=/feed.xml>\n",
    head_end=b"<LINK REL=stylesheet HREF=/style.css>\n<BODY BGCOLOR=#FFFFFF>\n",
    banner=b"<CENTER><FONT SIZE=+2><B>%b</FONT></B></CENTER>\n",
    navigation=b"<TABLE WIDTH=100%%><TR><TD>\n<LI>%b\n<TD>\n",
    crumbs=b"<P>&lt; %b\n",
    headline=b"<H1>%%b</H1>\n<P><I>%b \x02, %b \x01, %%d %%b %%d</I>\n",
    picture=b"<P><IMG SRC=/%b/%%d.png WIDTH=64 HEIGHT=48><BR><I>%b</I>\n",
    subheading=b"<H2>%b\n",
    paragraphs=(b"<P>%b\n", b"<P>%b %b\n"),
    facts=b"<UL><LI>%b\n<LI>%b\n<LI>%b\n</UL>\n",
    see_also=b"<P>%b %b.\n",
    list_start=b"<H3>%b</H3>\n<UL>\n<LI>",
    anchor=b"<A HREF=%b%b>%b</A>",
    path_anchor=b"<A HREF=%b%%b%%b-%%b-%%d%b>%%b %%b</A>",
    query_anchor=b"<A HREF=%b%%b%%d%b>%%b %%b</A>",
    between=b"\n<LI>",
    escapes=False,
    nofollow=b" REL=nofollow",
    list_end=b"\n</UL>\n",
    aside=b"</TABLE>\n<HR>\n<P><B>%b</B>: %b\n<P><I>%b</I>\n",
    footer=b"<HR>\n<ADDRESS>%b. %b.<BR>%b: ",
    end=b"</ADDRESS>\n",
)

MARKUPS = {False: TIDY, True: SLOPPY}
