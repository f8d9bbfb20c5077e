"""The laboratory: a web made up from a seed, and what is tried out on it.

How to invent a web. Write a small TOML file (docs/lab.md has every key, examples/world.toml is one to start from), or
none, and make a `World` of it:

    spec = WorldSpec.load(Path("world.toml"), seed=7, pages=20_000)
    world = World(spec, epoch_s=clock.now_s(), port=8800)
    answer = world.answer(Request("www.gazeta-de-valbela.test", "/"), clock.now_s())
    for line in truth.pages(world, until_s=clock.now_s()): ...

What comes in is a request and a time, what goes out is an answer (`exchange` has both); sockets, if any, are put around
it by `serve`. Everything about a page is a function of the seed, its host, its number and how often it has changed, so
a million pages need no memory, any instant can be asked for, and two worlds of one spec agree in every byte.

    spec                                    the keys of the file
    draws                                   chance as a function of a key
    hosts, urlspace, links, change, faults  what there is: hosts, URLs, who links to whom, when, what fails (T8)
    words, portuguese, english, prose       what pages say
    markup, pages, media, failures          how answers look
    robots, sitemaps, feeds, validators     what servers say about their pages, true or not
    endless, regions                        a trap; distance
    world                                   all of it behind one method; begin here
    truth, measuring                        what the world knows about itself; how fresh copies of it really are
    corpus                                  its pages by the hundred thousand, with words as in real text, for search

Beside that web, worlds of numbers alone, for policies that visit pages again (teia/refresh):

    planning, simulate                      plans for the pages of a file; policies carried out for days
    reproduce                               the papers' experiments
"""
