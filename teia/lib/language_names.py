"""Names of languages in English and in Brazilian Portuguese, by their ISO 639 codes: those that pages may have."""

from __future__ import annotations

_NAMES = """
    af=Afrikaans=Africâner; ar=Arabic=Árabe; az=Azerbaijani=Azerbaijano; be=Belarusian=Bielorrusso;
    bg=Bulgarian=Búlgaro; bn=Bengali=Bengali; br=Breton=Bretão; ca=Catalan=Catalão; cs=Czech=Tcheco; cy=Welsh=Galês;
    da=Danish=Dinamarquês; de=German=Alemão; el=Greek=Grego; en=English=Inglês; eo=Esperanto=Esperanto;
    es=Spanish=Espanhol; et=Estonian=Estoniano; eu=Basque=Basco; fa=Persian=Persa; fi=Finnish=Finlandês;
    fo=Faroese=Feroês; fr=French=Francês; fy=Frisian=Frísio; ga=Irish=Irlandês; gd=Scottish Gaelic=Gaélico escocês;
    gl=Galician=Galego; ha=Hausa=Hauçá; he=Hebrew=Hebraico; hi=Hindi=Híndi; hr=Croatian=Croata; hu=Hungarian=Húngaro;
    hy=Armenian=Armênio; id=Indonesian=Indonésio; io=Ido=Ido; is=Icelandic=Islandês; it=Italian=Italiano;
    ja=Japanese=Japonês; jv=Javanese=Javanês; ka=Georgian=Georgiano; kk=Kazakh=Cazaque; ko=Korean=Coreano;
    ku=Kurdish=Curdo; la=Latin=Latim; lb=Luxembourgish=Luxemburguês; lt=Lithuanian=Lituano; lv=Latvian=Letão;
    mg=Malagasy=Malgaxe; mk=Macedonian=Macedônio; mn=Mongolian=Mongol; mt=Maltese=Maltês; nl=Dutch=Holandês;
    no=Norwegian=Norueguês; pl=Polish=Polonês; pt=Portuguese=Português; rm=Romansh=Romanche; ro=Romanian=Romeno;
    ru=Russian=Russo; sc=Sardinian=Sardo; sk=Slovak=Eslovaco; sl=Slovenian=Esloveno; so=Somali=Somali;
    sq=Albanian=Albanês; sr=Serbian=Sérvio; sv=Swedish=Sueco; sw=Swahili=Suaíli; ta=Tamil=Tâmil; te=Telugu=Télugo;
    th=Thai=Tailandês; tk=Turkmen=Turcomeno; tl=Tagalog=Tagalo; tr=Turkish=Turco; uk=Ukrainian=Ucraniano;
    ur=Urdu=Urdu; uz=Uzbek=Uzbeque; vi=Vietnamese=Vietnamita; vo=Volapük=Volapuque; zh=Chinese=Chinês
"""

LANGUAGE_NAMES = {
    code: (english, portuguese) for code, english, portuguese in (each.strip().split("=") for each in _NAMES.split(";"))
}
"""English and Portuguese name, by code."""


def language_name(code: str, *, is_portuguese: bool = False) -> str:
    """Return the name of a language; the code itself if it is unknown."""
    return LANGUAGE_NAMES[code][is_portuguese] if code in LANGUAGE_NAMES else code
