"""Fingerprints of token sequences by winnowing, and what two sequences have in common.

S. Schleimer, D. S. Wilkerson, A. Aiken: Winnowing: Local Algorithms for Document Fingerprinting, SIGMOD 2003. Each run of
``GRAM`` tokens has a hash; of each ``WINDOW`` hashes in a row, the smallest is kept. So a common run of ``GRAM + WINDOW - 1``
tokens always has a fingerprint in common, and a shorter one than ``GRAM`` never.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from oplab.classes.similarity_tokens import Token

GRAM = 8  # tokens of a fingerprint
WINDOW = 4  # at most GRAM, so that the fingerprints of a copied passage leave no gap in it
_MOST = 8  # places of one fingerprint in one text that are compared: a table of constants repeats itself


@dataclass(frozen=True, slots=True)
class Tile:
    """A run of tokens that two sequences have in common, and where it begins in each."""

    first: int
    second: int
    length: int


def canonical(sequence: Sequence[Token]) -> tuple[str, ...]:
    """The tokens, each of the author's names as the number of its first occurrence: equal for sequences that only differ in names."""
    numbers: dict[str, str] = {}
    return tuple(numbers.setdefault(token.name, str(len(numbers))) if token.name else token.text for token in sequence)


def grams(sequence: Sequence[Token]) -> list[int]:
    """The hash of each run of GRAM tokens, by its first token; a shorter sequence has none. The same in every process.

    Which names of a run are equal counts, not what they are called.
    """
    runs = ("\0".join(canonical(sequence[i : i + GRAM])) for i in range(len(sequence) - GRAM + 1))
    digests = (hashlib.blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest() for run in runs)
    return [int.from_bytes(digest, "big") for digest in digests]


def winnow(hashes: Sequence[int]) -> dict[int, list[int]]:
    """The fingerprints and the places of each: in every window the smallest hash, of equal ones the last."""
    kept: dict[int, list[int]] = defaultdict(list)
    last = -1
    for first in range(max(len(hashes) - WINDOW + 1, 1 if hashes else 0)):
        window = range(first, min(first + WINDOW, len(hashes)))
        place = min(window, key=lambda i: (hashes[i], -i))
        if place != last:
            kept[hashes[place]].append(place)
            last = place
    return dict(kept)


def covered(size: int, places: Sequence[int]) -> list[bool]:
    """Which of ``size`` tokens the grams at these places cover."""
    inside = [False] * size
    for place in places:
        inside[place : place + GRAM] = [True] * len(inside[place : place + GRAM])
    return inside


def tiles(
    first: Sequence[int], second: Sequence[int], seeds: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> list[Tile]:
    """The runs that two sequences of grams share, longest first, no token in two of them: each seed grows as far as the grams are equal.

    A seed is the places, in the first and in the second, of a fingerprint that both have.
    """
    grown = {_grown(first, second, i, j) for here, there in seeds for i in here[:_MOST] for j in there[:_MOST]}
    chosen: list[Tile] = []
    used = [False] * (len(first) + GRAM), [False] * (len(second) + GRAM)
    for run in sorted(grown, key=lambda run: (-run.length, run.first, run.second)):
        for tile in _unused(run, *used):
            if tile.length >= GRAM:
                chosen.append(tile)
                used[0][tile.first : tile.first + tile.length] = [True] * tile.length
                used[1][tile.second : tile.second + tile.length] = [True] * tile.length
    return sorted(chosen, key=lambda tile: (-tile.length, tile.first))


def _grown(first: Sequence[int], second: Sequence[int], i: int, j: int) -> Tile:
    begin = 0
    while i - begin > 0 and j - begin > 0 and first[i - begin - 1] == second[j - begin - 1]:
        begin += 1
    end = 1
    while i + end < len(first) and j + end < len(second) and first[i + end] == second[j + end]:
        end += 1
    return Tile(i - begin, j - begin, begin + end + GRAM - 1)


def _unused(run: Tile, used_first: list[bool], used_second: list[bool]) -> list[Tile]:
    """The parts of a run whose tokens are in no tile yet."""
    parts, start = [], None
    for step in range(run.length + 1):
        free = step < run.length and not used_first[run.first + step] and not used_second[run.second + step]
        if free and start is None:
            start = step
        elif not free and start is not None:
            parts.append(Tile(run.first + start, run.second + start, step - start))
            start = None
    return parts
