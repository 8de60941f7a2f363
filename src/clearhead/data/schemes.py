"""How tags spell entities: BIO is what is kept, IOB1, IOBES and BILOU are read.

BIO (IOB2; Tjong Kim Sang & Veenstra 1999): the first word of an entity has B-, those after it I-, all other
words O. IOB1 (Ramshaw & Marcus 1995): an entity begins with I-, and with B- only right behind another of its
type. IOBES and BILOU also mark its last word (E-, L-), and one that stands alone (S-, U-).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clearhead.data.wording import listed, short

OUTSIDE = "O"
PREFIXES = {"B": "B", "I": "I", "E": "I", "S": "B", "L": "I", "U": "B"}  # and what they are in BIO
SCHEMES = ("BIO", "IOB1", "IOBES", "BILOU")
ENDS = {"IOBES": ("E", "S"), "BILOU": ("L", "U")}  # the last word of several, and a lone one
LAST = {prefix for ends in ENDS.values() for prefix in ends}


class Place(NamedTuple):
    """Words of an entity, from `begin` to before `end`."""

    type: str
    begin: int
    end: int


class WrongTag(Exception):
    """The tag at a place does not fit, and why."""

    def __init__(self, place: int, why: str):
        super().__init__(why)
        self.place = place


def parts(tag: str) -> tuple[str, str]:
    """Prefix and type; ("O", "") outside of entities. ValueError for any other tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = tag.partition("-")
    if prefix not in PREFIXES or not dash or not kind.strip():
        raise ValueError(tag)
    return prefix, kind


def check_tags(tags: Sequence[str]) -> None:
    """WrongTag at the first that no scheme has."""
    for place, tag in enumerate(tags):
        try:
            parts(tag)
        except ValueError:
            raise WrongTag(
                place,
                f"the tag {short(repr(tag))} is neither O nor a type after one of "
                f"{listed(f'{one}-' for one in PREFIXES)}; write O, B-PERSON, I-PERSON and the like",
            ) from None


def scheme_of(rows: Iterable[Sequence[str]]) -> str:
    """The scheme that rows of tags, which were checked, are in.

    E- or S- tell IOBES, L- or U- BILOU. B- and I- alone are IOB1 where entities begin with I- and no B-
    stands where IOB1 has none; all else is BIO.
    """
    prefixes, lone, needless = set(), False, False
    for tags in rows:
        for _, tag, follows in _followed(tags):
            prefix = tag[0]
            prefixes.add(prefix)
            lone |= prefix == "I" and not follows
            needless |= prefix == "B" and not follows
    for scheme, ends in ENDS.items():
        if prefixes.intersection(ends):
            return scheme
    return "IOB1" if lone and not needless else "BIO"


def as_bio(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Tags of a scheme as BIO. WrongTag at the first that the scheme does not allow there."""
    if scheme in ENDS:
        return _without_ends(tags, scheme)
    found = []
    for place, tag, follows in _followed(tags):
        if tag[0] not in "BIO":
            raise WrongTag(place, f"the tag {short(repr(tag))} is not {scheme}, in which other rows are")
        if tag[0] == "I" and not follows:
            if scheme == "BIO":
                before = tags[place - 1] if place else "nothing"
                raise WrongTag(
                    place, f"{short(tag)} follows {short(before)}, and in BIO an entity begins with B-; "
                    f"write B-{short(tag[2:])}"
                )  # fmt: skip
            tag = f"B{tag[1:]}"
        found.append(tag)
    return tuple(found)


def loosely(tag: str) -> tuple[str, str, bool]:
    """Prefix in BIO and type of a label, and whether it ends an entity; one without a prefix goes on with
    words of its own kind."""
    try:
        prefix, kind = parts(tag)
    except ValueError:
        return "I", tag, False
    return PREFIXES.get(prefix, OUTSIDE), kind, prefix in LAST


def places(tags: Sequence[str], *, strict: bool = False) -> list[Place]:
    """The entities of tags, in order. Behind O, and a tag that ends an entity, none is open. Where a tag goes
    on with none of its type, it begins an entity or, if `strict`, belongs to none."""
    found: list[Place] = []
    kind, begin, goes_on = "", -1, False
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, new, ends = loosely(tag)
        if not (prefix == "I" and goes_on and new == kind):
            if begin >= 0:
                found.append(Place(kind, begin, place))
            starts = prefix == "B" or (prefix == "I" and not strict)
            kind, begin = new, place if starts else -1
        goes_on = prefix != OUTSIDE and not ends
    return found


def spelled(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """BIO as another scheme, for a model whose labels are in it."""
    if scheme not in ENDS:
        return tuple(tags)
    last, lone = ENDS[scheme]
    found = list(tags)
    for one in places(tags):
        end = one.end - 1
        found[end] = f"{lone if end == one.begin else last}-{one.type}"
    return tuple(found)


def _followed(tags: Sequence[str]) -> Iterator[tuple[int, str, bool]]:
    """Each tag with its place, and whether it stands behind a word of an entity of its type."""
    before = ""
    for place, tag in enumerate(tags):
        kind = tag[2:] if tag != OUTSIDE else ""
        yield place, tag, bool(kind) and kind == before
        before = kind


def _without_ends(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    last, lone = ENDS[scheme]
    found, open_type = [], ""  # the type of an entity whose last word has not come
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, kind = parts(tag)
        if prefix not in ("O", "B", "I", last, lone):
            raise WrongTag(place, f"the tag {short(repr(tag))} is not {scheme}, in which other rows are")
        goes_on = prefix in ("I", last)
        if goes_on and kind != open_type:
            before = tags[place - 1] if place else "nothing"
            raise WrongTag(
                place, f"{short(tag)} follows {short(before)}, and in {scheme} an entity begins with B- or "
                f"is {lone}- alone; write B-{short(kind)} or {lone}-{short(kind)}"
            )  # fmt: skip
        if not goes_on and open_type:
            raise WrongTag(
                place - 1, f"{short(tags[place - 1])} is the last word of an entity, which {scheme} marks "
                f"with {last}-, or {lone}- where it is alone"
            )  # fmt: skip
        open_type = kind if prefix in ("B", "I") else ""
        found.append(tag if tag == OUTSIDE else f"{PREFIXES[prefix]}-{kind}")
    return tuple(found[:-1])
