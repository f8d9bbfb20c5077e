"""English, as a world writes it. The rules for entries are in `words`."""

from __future__ import annotations

from teia.lab.text.words import Language, TopicWords, commas, lines

_ENGLISH_TOPICS = {
    "town": TopicWords(
        commas(
            "The square, The market hall, The old bridge, The library, The council, The bandstand, The school,"
            " The harbour, The budget, The fair, The station, The garden, The theatre, The high street, The"
            " mill, The quay"
        ),
        commas(
            "the town council, the mayor, the residents' group, the primary school, the planning office, the"
            " market hall, the harbour board, the brass band, the parish, the bus company"
        ),
        lines(
            """approved the budget for next year
            put off the repair of the old bridge
            opened its doors to everybody
            promised a new footpath by summer
            received more than two hundred letters
            voted against moving the market
            planted fifty trees in the garden
            asked the water company for an account
            announced three days of music on the square
            brought together neighbours who never spoke
            restored the bandstand and the fountain
            argued about the price of parking
            won a prize for its clean streets
            is still waiting for an answer"""
        ),
    ),
    "science": TopicWords(
        commas(
            "The telescope, The cell, The volcano, The tide, The fossil, The microbe, The comet, The forest, The"
            " glacier, The magnet, The bee, The genome, The current, The mineral, The cloud, The neuron"
        ),
        commas(
            "the team of biologists, the observatory, the physicist, the laboratory, a sample of rock, the"
            " survey, the probe, the climate model, the colony of microbes, the microscope"
        ),
        lines(
            """measured the ocean at a depth of a thousand metres
            found traces of water on the comet
            described a species of bee never seen before
            repeated the experiment with another method
            confirmed the age of the fossil
            explained where the cold current begins
            published the data for everyone to use
            watched the cell for three weeks
            corrected an old mistake in the tables
            compared the genome of two populations
            predicted the next eruption of the volcano
            recorded a shower of rare particles
            cast doubt on the usual hypothesis
            worked out the mass of the dust cloud"""
        ),
    ),
    "sport": TopicWords(
        commas(
            "The club, The final, The goalkeeper, The marathon, The coach, The regatta, The league, The team,"
            " The stadium, The cyclist, The swimmer, The cup, The season, The referee, The derby, The captain"
        ),
        commas(
            "the home side, the goalkeeper, the coach, the youth team, the captain, the federation, the cyclist,"
            " the swimmer, the referee, the away crowd"
        ),
        lines(
            """scored twice in the second half
            lost the final on penalties
            signed for one more season
            ran the marathon in under three hours
            won the mountain stage
            missed the last shot of the match
            changed its tactics halfway through the league
            broke the national youth record
            celebrated promotion until midnight
            trained in the rain before empty stands
            drew at home with the bottom side
            lifted the cup in front of the supporters
            came back from a knee injury
            complained about the free kick"""
        ),
    ),
    "food": TopicWords(
        commas(
            "The sourdough loaf, The bean soup, The mature cheese, The fish stew, The new olive oil, The plum"
            " jam, The rice pudding, The apple pie, The smoked haddock, The oat cake, The red wine, The kitchen"
            " garden, The bread oven, The chestnut, The leek broth, The honey"
        ),
        commas(
            "the cook, the baker, the family recipe, the restaurant, the bread oven, the dough, the broth, the"
            " farm, the cheesemaker, the corner table"
        ),
        lines(
            """takes two spoons of oil and a clove of garlic
            rests overnight before it goes to the fire
            asks for low heat and no hurry
            stirs the oat flour into warm water
            serves the soup with bread and pickles
            keeps the spice mix a secret
            uses honey in place of sugar
            cuts the cheese into thin slices
            poaches the haddock with leeks and eggs
            tastes the broth before adding salt
            picks tomatoes that are really ripe
            fills the house with the smell of cinnamon
            seasons the meat with bay and wine
            leaves the chestnuts to roast on the embers"""
        ),
    ),
    "travel": TopicWords(
        commas(
            "The path, The island, The night train, The beach, The viewpoint, The village, The castle, The inn,"
            " The valley, The ridge, The lighthouse, The crossing, The abbey, The lake, The trail, The border"
        ),
        commas(
            "the traveller, the guide, the morning train, the inn, the trail, the ferry, the stone village, the"
            " viewpoint, the luggage, the map"
        ),
        lines(
            """follows the river down to the lake
            passes the village without stopping
            reaches the castle before sunset
            offers a room and supper for little money
            crosses the border by a stone track
            shows the whole island in one day
            climbs two hundred steps to the lighthouse
            misses the connection and waits three hours
            goes down the valley between the vineyards
            carries water, bread and a coat
            finds a beach that no guidebook mentions
            leaves as soon as it is light
            spends the night at the abbey with pilgrims
            comes home by the coast road"""
        ),
    ),
    "computing": TopicWords(
        commas(
            "The program, The network, The server, The database, The file, The algorithm, The password, The"
            " protocol, The disk, The queue, The robot, The backup, The index, The bug, The release, The keyboard"
        ),
        commas(
            "the program, the database, the server, the operations team, the protocol, the new release, the"
            " algorithm, the local network, the crawler, the programmer"
        ),
        lines(
            """reads the file one line at a time
            keeps a copy on two disks
            answers in less than twenty milliseconds
            splits the queue over four processes
            deletes versions older than a year
            sorts addresses by importance
            refuses passwords shorter than twelve letters
            waits a minute between two requests
            fixes the bug found the day before
            measures the time of every operation
            loses the connection and resumes where it was
            needs half the memory it used to
            visits every server once a day
            turns the name of a machine into a number"""
        ),
    ),
}

ENGLISH = Language(
    code="en",
    topics=_ENGLISH_TOPICS,
    circumstances=commas(
        "last week, since the start of the year, late in the afternoon, in spite of the rain, with the"
        " neighbours' help, without great surprise, for the third time, in front of a crowd, before the winter,"
        " in a few hours, with care and patience, after a long wait, as tradition has it, at the request of"
        " \x02, close to \x01, a mile or two from \x01"
    ),
    frames=lines(
        """{subject} {deed} {when}.
        {when}, {subject} {deed}.
        According to \x02, {subject} {deed}.
        In \x01, {subject} {deed} {when}.
        {subject} {deed}, but {other} {deed2}.
        {subject} {deed} and {deed2}.
        Those who know say that {subject} {deed} {when}.
        It is not the first time that {subject} {deed}.
        Whenever {subject} {deed}, {other} {deed2}.
        For \x02, what matters most is that {subject} {deed}."""
    ),
    twists=lines(
        """up close
        in numbers
        step by step
        from within
        of former days
        without secrets
        and its mysteries
        under debate
        on trial
        comes back
        as never before
        live
        in three acts
        and the future
        after hours
        against the clock"""
    ),
    tail_words=("in", "near", "on the way to", "all around"),
    subheadings=lines(
        """What has changed
        How it began
        The coming weeks
        Questions and answers
        What the neighbours say
        A little history
        The sums
        Further reading
        The other side
        Before and after
        Who wins and who loses
        In a few words"""
    ),
    proverbs=lines(
        """A stitch in time saves nine.
        Slow and steady wins the race.
        Many a little makes a mickle.
        All things come to those who wait.
        Better late than never.
        The early bird catches the worm.
        All that glitters is not gold.
        Haste makes waste.
        Many hands make light work.
        Still waters run deep.
        Every cloud has a silver lining.
        Look before you leap.
        Actions speak louder than words.
        Practice makes perfect.
        No smoke without fire.
        A rolling stone gathers no moss."""
    ),
    advertisements=lines(
        """Orchard Farm cider: taste and compare.
        Central Clocks, always on time.
        Piano lessons for every age.
        Shoes made by hand, brought to your door.
        Insurance without small print.
        Used bicycles as good as new.
        Old books bought and sold.
        Spectacles ready in an hour.
        Tyres and service on Saturdays.
        Country holidays, everything included.
        Fresh flowers every day.
        Learn Portuguese in six months."""
    ),
    place_starts=commas(
        "Oak, Ash, Elm, Thorn, Hart, Win, Black, White, Green, Stone, Brad, Cald, Dun, East, West, Nor, Sut,"
        " Lang, Mar, Pen, Raven, Swin, Whit, Fern, Kirk, Mill"
    ),
    place_ends=commas(
        "field, ford, bury, combe, worth, leigh, wick, stead, mere, thorpe, bridge, minster, hurst, holme,"
        " ridge, well, dale, mouth, gate, hampton, stow, cliffe, burn, water"
    ),
    first_names=commas("Alice, Hugh, Nora, Peter, Edith, Simon, Clara, Walter, Ruth, Giles, Mabel, Owen, Flora, Ned"),
    surname_starts=commas("Al, Bar, Car, Fair, Gar, Har, Lan, Mar, Nor, Pem, Quil, Rad, Sel, Tar, Var, Wen"),
    surname_ends=commas("brook, low, bourne, wick, shaw, land, croft, dine, ley, mont, ridge, son, more, ton, vane"),
    site_kinds=(
        ("herald", "Herald"),
        ("times", "Times"),
        ("post", "Post"),
        ("gazette", "Gazette"),
        ("house", "House"),
        ("club", "Club"),
        ("museum", "Museum"),
        ("radio", "Radio"),
        ("school", "School"),
        ("courier", "Courier"),
        ("market", "Market"),
        ("books", "Books"),
        ("friends", "Friends"),
        ("travel", "Travel"),
        ("forum", "Forum"),
        ("review", "Review"),
    ),
    subdomains=("blog", "shop", "archive", "forum", "news", "photos", "m"),
    sections=(
        ("news", "News"),
        ("culture", "Culture"),
        ("opinion", "Opinion"),
        ("archive", "Archive"),
        ("features", "Features"),
        ("letters", "Letters"),
    ),
    phrases={
        "of": "of",
        "home": "Home",
        "by": "By",
        "on": "on",
        "see": "See also",
        "related": "Read on",
        "inside": "In this section",
        "elsewhere": "Elsewhere",
        "partners": "Our friends",
        "advertisement": "Advertisement",
        "visits": "Visits",
        "rights": "All rights reserved",
        "calendar": "Calendar",
        "photo": "Photograph by \x02",
        "page": "view",
        "documents": "documents",
        "files": "files",
        "private": "private",
        "images": "images",
        "agenda": "calendar",
        "mirror": "mirror",
        "not_found": "Page not found",
        "error": "The request could not be answered",
        "moved": "This page has moved",
        "choices": "Choose one of these pages",
    },
    months=commas("January, February, March, April, May, June, July, August, September, October, November, December"),
)
