"""One number in many spellings, and texts that are no numbers."""

from __future__ import annotations

from tests.vectors.generation.dice import Dice, Weights

UNREADABLE = (
    *("", "high", "v1.31.2", "NaN", "Infinity", "-", "+", ".", "Ki", "e5", "1e", "1e+", "1e1.5", "1.2.3", "--1", "+-1"),
    *("1_000", "1 Gi", " 1", "1 ", "1\n", "0x10", "1ki", "1K", "1KB", "1mi", "1,5", "\uff11", "1e5k", "1.5.", "\u00bd"),
)
CORNERS = (
    *("0", "-0", "0.0", "5.", ".5", "-.5", "+0.5", "000", "1e0", "1E", "1E0", "-1E-3", "16Ei", "-16Ei", "8Ei", "9e18"),
    *("9223372036854775807", "9223372036854775808", "9007199254740992", "9007199254740993", "0.1n", "1e-12", "-1e-10"),
    *("0.3", "300m", "0.30", "0.1Ki", "102400m", "1000000001n", "1.000000001", "4Gi", "4G", "4.29496729600e9", "1.5Ki"),
)
POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12}
_KINDS = Weights({"small": 6, "fraction": 2, "negative": 1, "large": 2, "binary": 1})
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30}


def any_value(dice: Dice, *, unreadable: float = 0.06) -> str | int:
    if dice.chance(unreadable):
        return dice.choice(UNREADABLE)
    return dice.choice(CORNERS) if dice.chance(0.08) else spelled(dice, a_number(dice))


def a_number(dice: Dice) -> int:
    """In thousandths. Small numbers often, so that values are equal often."""
    kind = dice.one_of(_KINDS)
    if kind == "small":
        return dice.randint(0, 8) * 1000
    if kind == "fraction":
        return dice.randint(0, 40) * 125
    if kind == "negative":
        return -dice.randint(1, 8) * 1000
    if kind == "large":
        return dice.randint(1, 10**9) * 1000
    power = dice.choice(list(BINARY.values()))
    return dice.randint(1, 64) * (1 << power) * 1000


def spelled(dice: Dice, thousandths: int) -> str | int:
    whole, rest = divmod(abs(thousandths), 1000)
    if not rest and thousandths >= 0 and whole < 2**53 and dice.chance(0.05):
        return whole
    sign = "-" if thousandths < 0 else "+" if dice.chance(0.05) else ""
    zeros = "0" * dice.choice((1, 2)) if dice.chance(0.05) else ""
    return sign + zeros + dice.choice((_plain, _plain, _scaled, _exponent, _binary))(dice, whole, rest)


def _plain(dice: Dice, whole: int, rest: int) -> str:
    fraction = f"{rest:03d}".rstrip("0") + "0" * dice.choice((0, 0, 0, 1, 2, 8))
    return f"{whole}.{fraction}" if fraction else str(whole)


def _scaled(dice: Dice, whole: int, rest: int) -> str:
    suffix = dice.choice(list(POWERS))
    return _shifted(whole * 1000 + rest, -3 - POWERS[suffix]) + suffix


def _exponent(dice: Dice, whole: int, rest: int) -> str:
    power = dice.randint(-6, 6)
    sign = dice.choice(("", "+")) if power >= 0 else "-"
    return _shifted(whole * 1000 + rest, -3 - power) + dice.choice("eE") + f"{sign}{abs(power)}"


def _binary(dice: Dice, whole: int, rest: int) -> str:
    fitting = [suffix for suffix, power in BINARY.items() if whole and not rest and whole % 2**power == 0]
    if not fitting:
        return _plain(dice, whole, rest)
    suffix = dice.choice(fitting)
    return f"{whole // 2 ** BINARY[suffix]}{suffix}"


def _shifted(digits: int, power: int) -> str:
    """digits * 10**power without an exponent."""
    if power >= 0:
        return f"{digits}{'0' * power}" if digits else "0"
    text = str(digits).rjust(1 - power, "0")
    return f"{text[:power]}.{text[power:]}".rstrip("0").rstrip(".")
