#!/usr/bin/env python3
"""Writes the vectors beside this file: what any other language must compute. Plain Python, nothing to install.

    python3 make_vectors.py            writes the files
    python3 make_vectors.py --check    only compares, and exits 1 if a file differs

fnv1a.tsv          hash, text: FNV-1a of 64 bits over UTF-8; the first three are published
older_program.tsv  preferred poller (empty: nobody), target, pollers in list order: what the older program chooses
xxh64.tsv          hash, target, poller: XXH64 with seed 0 over target, a zero byte, poller
ranks.tsv          target, then weight:poller from the most to the least preferred, with logarithmic weights

Nothing here was translated from the Rust beside it: FNV-1a and XXH64 follow their specifications, the preferred
poller follows the older program line by line, and weights are reckoned with sixty digits.
"""

import sys
from decimal import Decimal, getcontext
from pathlib import Path

getcontext().prec = 60
WORD = 2**64 - 1


def fnv1a(octets):
    value = 0xCBF29CE484222325
    for octet in octets:
        value = ((value ^ octet) * 0x100000001B3) & WORD
    return value


PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5


def rotated(value, by):
    return ((value << by) | (value >> (64 - by))) & WORD


def xxh64(octets, seed=0):
    def lane(at, size=8):
        return int.from_bytes(octets[at : at + size], "little")

    def mixed(accumulator, value):
        return (rotated((accumulator + value * PRIME_2) & WORD, 31) * PRIME_1) & WORD

    at = 0
    if len(octets) >= 32:
        lanes = [(seed + PRIME_1 + PRIME_2) & WORD, (seed + PRIME_2) & WORD, seed, (seed - PRIME_1) & WORD]
        while at + 32 <= len(octets):
            lanes = [mixed(value, lane(at + 8 * number)) for number, value in enumerate(lanes)]
            at += 32
        value = sum(rotated(each, by) for each, by in zip(lanes, (1, 7, 12, 18))) & WORD
        for each in lanes:
            value = ((value ^ mixed(0, each)) * PRIME_1 + PRIME_4) & WORD
    else:
        value = (seed + PRIME_5) & WORD
    value = (value + len(octets)) & WORD
    while at + 8 <= len(octets):
        value = (rotated(value ^ mixed(0, lane(at)), 27) * PRIME_1 + PRIME_4) & WORD
        at += 8
    if at + 4 <= len(octets):
        value = (rotated(value ^ (lane(at, 4) * PRIME_1 & WORD), 23) * PRIME_2 + PRIME_3) & WORD
        at += 4
    for octet in octets[at:]:
        value = (rotated(value ^ (octet * PRIME_5 & WORD), 11) * PRIME_1) & WORD
    value = ((value ^ (value >> 33)) * PRIME_2) & WORD
    value = ((value ^ (value >> 29)) * PRIME_3) & WORD
    return value ^ (value >> 32)


def preferred_owner(endpoint, live_nodes):
    """As the older program has it: greater than the best so far, which begins at 0."""
    best_node, best_weight = "", 0
    for node in live_nodes:
        weight = fnv1a((node + endpoint).encode())
        if weight > best_weight:
            best_weight, best_node = weight, node
    return best_node


def affinity(target, poller):
    return xxh64(target.encode() + b"\0" + poller.encode())


def in_order_of_rank(target, weights):
    """Rendezvous hashing by the logarithmic method: the greatest -weight / ln(hash as a fraction) first."""
    scored = []
    for poller, weight in weights:
        fraction = (Decimal(affinity(target, poller)) + Decimal("0.5")) / 2**64
        scored.append((-Decimal(weight) / fraction.ln(), weight, poller))
    scored.sort(reverse=True)
    for (one, _, _), (other, _, _) in zip(scored, scored[1:]):
        # So near that the rounding of floating point could turn them round: no vector.
        assert (one - other) / one > Decimal("1e-12"), (target, weights)
    return [(weight, poller) for _, weight, poller in scored]


class Dice:
    """SplitMix64, so that the vectors are the same with every Python."""

    def __init__(self, seed):
        self.state = seed

    def word(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        value = self.state
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
        return value ^ (value >> 31)

    def below(self, bound):
        return self.word() % bound

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items


WORDS = ["Zürich", "東京", "Ωmega", "naïve", "Δ", "🛰️", "кит", "e\u0301", "é", "שלום", "a b", "ß", "%2F", "..", "\u00a0"]


def instance(dice):
    host = dice.choice(["host", "web-1", "ip-10-0-3-17", "poller.example", "büro", "東京"])
    return f"{host}-{1_768_000_000_000_000_000 + dice.below(10**16)}-{dice.word() >> 32:08x}"


def poller(dice):
    return dice.choice(
        [
            instance,
            lambda dice: f"poller-{dice.below(20)}",
            lambda dice: chr(ord("a") + dice.below(26)),
            lambda dice: dice.choice(WORDS) + str(dice.below(9)),
        ]
    )(dice)


def target(dice):
    def uuid(dice):
        text = f"{dice.word():016x}{dice.word():016x}"
        return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])

    return dice.choice(
        [
            lambda dice: f"s{dice.below(1000)}",
            uuid,
            lambda dice: f"{dice.below(10**6):08}",
            lambda dice: f"https://sensors.example/rack/{dice.below(40)}/unit?id={dice.below(1000)}",
            lambda dice: dice.choice(WORDS) + dice.choice(WORDS),
            lambda dice: "x" * dice.below(70),
        ]
    )(dice)


def distinct(draw, dice, count):
    found = []
    while len(found) < count:
        name = draw(dice)
        if name not in found:
            found.append(name)
    return found


PUBLISHED_FNV1A = [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)]
PUBLISHED_XXH64 = [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)]

# Two names with one hash: whatever follows them, they tie.
COLLIDING = ["8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"]
# Poller and target whose hash is 0, which is not greater than 0.
WITHOUT_HASH = [("77kep", "QFQ8Kl"), ("!0IC", "=VloaY")]


def fnv1a_rows():
    dice = Dice(1)
    texts = [text for text, _ in PUBLISHED_FNV1A] + COLLIDING + [one + other for one, other in WITHOUT_HASH]
    texts += WORDS + distinct(target, dice, 40) + distinct(poller, dice, 40)
    return [[f"{fnv1a(text.encode()):016x}", text] for text in dict.fromkeys(texts)]


def older_program_rows():
    dice = Dice(2)
    cases = [(target(dice), distinct(poller, dice, 1 + dice.below(8))) for _ in range(300)]
    fleet = distinct(instance, dice, 5)
    cases += [(f"s{number}", dice.shuffled(fleet)) for number in range(150)]
    cases += [(target(dice), dice.shuffled(COLLIDING)) for _ in range(20)]
    cases += [(target(dice), dice.shuffled(COLLIDING + distinct(poller, dice, 1))) for _ in range(20)]
    for node, endpoint in WITHOUT_HASH:
        cases += [(endpoint, [node]), (endpoint, [node, "other"]), (endpoint, ["other", node])]
    cases += [("", ["", "a", "foobar"]), ("s1", []), ("", [""]), ("b", ["a", "ab"]), ("bc", ["a", "ab"])]
    return [[preferred_owner(endpoint, nodes), endpoint, *nodes] for endpoint, nodes in cases]


def xxh64_rows():
    dice = Dice(3)
    pairs = [(name, each) for name in distinct(target, dice, 60) for each in distinct(poller, dice, 5)]
    # Every length around the blocks of 32, 8, 4 and 1 that the hash reads.
    pairs += [("t" * length, each) for length in range(70) for each in "pqr"]
    pairs += [("", ""), ("a", "b"), ("ab", ""), ("", "ab")]
    return [[f"{affinity(*pair):016x}", *pair] for pair in dict.fromkeys(pairs)]


def rank_rows():
    dice = Dice(4)
    rows = []
    for number in range(400):
        weights = [(name, dice.choice([1, 3])) for name in distinct(poller, dice, 1 + dice.below(8))]
        if number % 4 == 0:
            weights = [(name, 1) for name, _ in weights]
        name = target(dice)
        rows.append([name, *(f"{weight}:{each}" for weight, each in in_order_of_rank(name, weights))])
    return rows


def main():
    assert all(fnv1a(text.encode()) == value for text, value in PUBLISHED_FNV1A)
    assert all(xxh64(octets) == value for octets, value in PUBLISHED_XXH64)
    assert fnv1a(COLLIDING[0].encode()) == fnv1a(COLLIDING[1].encode())
    assert all(fnv1a((node + endpoint).encode()) == 0 for node, endpoint in WITHOUT_HASH)
    files = {
        "fnv1a.tsv": fnv1a_rows(),
        "older_program.tsv": older_program_rows(),
        "xxh64.tsv": xxh64_rows(),
        "ranks.tsv": rank_rows(),
    }
    differing = []
    for name, rows in files.items():
        path = Path(__file__).with_name(name)
        text = "".join("\t".join(row) + "\n" for row in rows)
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif path.read_text(encoding="utf-8") != text:
            differing.append(name)
    if differing:
        sys.exit(f"differs: {', '.join(differing)}")


if __name__ == "__main__":
    main()
