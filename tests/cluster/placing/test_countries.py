"""Which country an address is in, by files in the forms that such data comes in."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from teia.cluster.placing.countries import Countries, open_countries
from teia.errors import ConfigError

EVERY_FORM = """
# tor-geoipdb
33554432,33554687,fr
"3221225984","3221226239","US","United States"
2001:200::,2001:200:ffff:ffff:ffff:ffff:ffff:ffff,JP
200.128.0.0/9,br
2801:80::/28,BR
2|lacnic|20261115|3|19870101|20261115|-0300
lacnic|*|ipv4|*|1|summary
lacnic|BR|asn|1916|1|19900101|allocated
lacnic|AR|ipv4|190.0.0.0|65536|20050101|allocated
lacnic|CL|ipv6|2800:150::|32|20050101|allocated
ripencc||ipv4|5.0.0.0|256||available
1.0.0.0,1.0.0.255,OC,AU,Queensland,South Brisbane,-27.4767,153.017
1.0.1.0,1.0.1.255,ZZ,ZZ,,,0,0
"16777728","16777983","BR","Brazil","Pernambuco","São Lourenço/Recife","-8.0","-34.9"
"16777984","16778239","NA","Namibia","-","-"
200.133.0.0/16,br/Paraná/Curitiba
"""


@pytest.mark.parametrize(
    ("address", "country"),
    [
        ("2.0.0.200", "FR"), ("2.0.1.0", ""), ("192.0.2.9", "US"), ("200.200.3.4", "BR"), ("190.0.255.255", "AR"),
        ("190.1.0.0", ""), ("5.0.0.1", ""), ("2001:200:5::1", "JP"), ("2801:8f::1", "BR"), ("2800:150:9::2", "CL"),
        ("::ffff:200.200.3.4", "BR"), ("::1", ""), ("no address", ""), ("", ""),
        ("1.0.0.9", "AU/QUEENSLAND/SOUTH BRISBANE"), ("1.0.1.9", ""), ("1.0.3.9", "NA"),
        ("1.0.2.9", "BR/PERNAMBUCO/SAO LOURENCO RECIFE"), ("200.133.1.1", "BR/PARANA/CURITIBA"),
    ],
)  # fmt: skip
def test_every_form_is_read(tmp_path: Path, address: str, country: str) -> None:
    """A4: the registries' files that the paper used, Debian's, files with cities, and networks of one's own."""
    file = tmp_path / "countries.csv"
    file.write_text(EVERY_FORM, "utf-8")
    assert open_countries(file).of(address) == country


def test_the_narrowest_range_counts_and_the_one_around_it_goes_on_behind() -> None:
    chance = random.Random(3)
    for _ in range(100):
        networks = []
        for name in "ABCDEFGH":
            size = 1 << chance.randint(0, 6)
            first = chance.randrange(0, 128, size)
            networks.append((first, first + size - 1, name))
        found = Countries(networks, [])
        for place in range(140):
            around = [(last - first, first, name) for first, last, name in networks if first <= place <= last]
            narrowest = {name for size, _, name in around if size == min(around)[0]}
            assert found.of(f"0.0.0.{place}") in (narrowest or {""})


@pytest.mark.parametrize("line", ["200.0.0.0/99,BR", "hello", "1.2.3.4,BR", "lacnic|BR|ipv4|x|256|d|allocated"])
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(f"10.0.0.0/8,AA\n{line}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"wrong\.csv, line 2: "):
        Countries.read([file])


def test_a_file_that_is_not_there_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nowhere") as told:
        open_countries(tmp_path / "nowhere.csv")
    assert "\n" not in str(told.value)
