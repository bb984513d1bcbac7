"""Suggestions in plain Python, by dictionaries, one rating after the other."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from kafkalite.pipelines.feeders.ratings import Rating

LIKE, HISTORY, SUPPORT = 4.0, 30, 2
Scores = dict[str, float]


class Films:
    """The films that each user has seen and liked, and the pairs of films that users like together."""

    def __init__(self) -> None:
        self.seen: dict[str, set[str]] = defaultdict(set)
        self.likes: dict[str, list[str]] = defaultdict(list)
        self.popularity: Counter[str] = Counter()
        self.together: dict[str, Counter[str]] = defaultdict(Counter)

    def rate(self, rating: Rating) -> None:
        """Add a rating."""
        self.seen[rating.user].add(rating.item)
        liked = self.likes[rating.user]
        if rating.rating < LIKE or rating.item in liked:
            return
        for other in liked[-HISTORY:]:
            self.together[rating.item][other] += 1
            self.together[other][rating.item] += 1
        liked.append(rating.item)
        self.popularity[rating.item] += 1

    def scores(self, user: str) -> Scores:
        """Scores of the films that ``user`` has not seen and that have a score."""
        found: Counter[str] = Counter()
        for item in self.likes[user][-HISTORY:]:
            for other, count in self.together[item].items():
                if count >= SUPPORT and other not in self.seen[user]:
                    found[other] += count / math.sqrt(self.popularity[item] * self.popularity[other])  # type: ignore[assignment]
        return dict(found)

    def most_popular(self, user: str, count: int) -> list[str]:
        """The films that most users like, among those that ``user`` has not seen."""
        return [item for item, _ in self.popularity.most_common() if item not in self.seen[user]][:count]


def split(ratings: Iterable[Rating], share: float) -> tuple[list[Rating], dict[str, set[str]]]:
    """The first ``share`` of each user's ratings, and the films that the user likes in the others."""
    of_user: dict[str, list[Rating]] = defaultdict(list)
    for each in ratings:
        of_user[each.user].append(each)
    known: list[Rating] = []
    later: dict[str, set[str]] = {}
    for user, given in of_user.items():
        end = int(len(given) * share)
        known += given[:end]
        later[user] = {each.item for each in given[end:] if each.rating >= LIKE}
    return sorted(known, key=lambda each: each.time), later


def hit_rate(suggested: Mapping[str, Iterable[str]], later: Mapping[str, set[str]]) -> float:
    """The share of users who later like a suggested film, among those with suggestions who later like any film."""
    asked = [user for user in suggested if later[user]]
    return sum(bool(later[user].intersection(suggested[user])) for user in asked) / len(asked)
