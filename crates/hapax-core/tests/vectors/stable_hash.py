"""Writes stable_hash.json: what `stable_hash` has to answer, computed without any of its code.

Run in this folder: python3 stable_hash.py > stable_hash.json
Once published, a vector never changes; other rules are another version of the fingerprint.
"""

import hashlib
import json
import random
import struct
import sys

# Name, and JSON text as it may come from anywhere: with spaces, in any order, with needless escapes.
VALUES = [
    ("null", "null"),
    ("bools", "[true, false]"),
    ("empty containers", '{"o": {}, "a": [ ], "s": ""}'),
    ("order of properties", '{"b": 2, "a": 1, "C": 3, "_": 4, "1": 5, "10": 6, "2": 7, "": 8}'),
    ("case tells names apart", '{"a": 1, "A": 2, "aa": 3, "aA": 4}'),
    ("a name that is the start of another", '{"ab": 1, "a": 2, "a\\u0000": 3, "a ": 4}'),
    # U+1F600 begins with the code unit D83D, below U+E000 and U+FB33; in UTF-8 it is above them.
    ("astral against BMP", '{"\\ufb33": 1, "\\ud83d\\ude00": 2, "\\ue000": 3, "\\ud7ff": 4, "\\uffff": 5}'),
    ("astral against astral", '{"\\udbff\\udfff": 1, "\\ud800\\udc00": 2, "\\ud83d\\ude00": 3, "\\ud83d\\ude01": 4}'),
    (
        "names of all widths",
        '{"\\u20ac": "€", "\\r": "CR", "\\ufb33": "dalet", "1": "one", "\\ud83d\\ude00": "face", "\\u0080": "control", "ö": "o"}',
    ),
    ("composed and decomposed stay apart", '{"\\u00e9": 1, "e\\u0301": 2}'),
    ("short escapes", '"\\b\\t\\n\\f\\r\\"\\\\"'),
    ("long escapes", '"\\u0000\\u0001\\u000b\\u001f\\u007f\\u0080\\u2028\\u2029\\ufeff"'),
    ("no needless escapes", '"\\/ \\u0041\\u00e9\\u20ac\\ud83d\\ude00 <>&\'"'),
    ("escapes in names", '{"\\n": 1, "\\"": 2, "\\\\": 3, "/": 4}'),
    ("zeros", "[0, -0, 0.0, -0.0, 0e10, -0e-10]"),
    ("whole numbers written as fractions", "[1.0, 1e0, 10e-1, 100.00, -5.0, 1E2]"),
    ("powers of ten", "[1e20, 1e21, 1e22, 1e-6, 1e-7, 123456789012345680000, 1e300, 1e-300]"),
    ("fractions", "[0.1, 0.2, 0.30000000000000004, 1.5, -2.5, 4.35, 333333333.33333329, 1e-27, 4.50]"),
    ("limits of floats", "[5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308]"),
    ("integers around 2^53", "[9007199254740991, 9007199254740992, 9007199254740993, -9007199254740991, -9007199254740993]"),
    ("limits of 64 bits", "[18446744073709551615, 9223372036854775807, -9223372036854775808, 9223372036854775808]"),
    ("order of elements counts", "[3, 1, 2, [3, 1, 2]]"),
    (
        "an order",
        '{"id": "o-1", "items": [{"sku": "b", "n": 2, "price": 12.50}, {"price": 3, "n": 1, "sku": "a"}],'
        ' "to": {"name": "Zoë", "city": null}, "gift": false}',
    ),
    ("nested in both ways", '[{"b": [{"d": {}, "c": []}], "a": {"b": {"b": 1, "a": 2}, "a": [[], [[]]]}}]'),
]

# IEEE 754 bits and text, as listed in RFC 8785, appendix B.
KNOWN_NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

BYTES = ["", "00", "6e756c6c", "7b7d", "ff" * 64]


def float_of(bits):
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def float_text(value):
    """ECMAScript's Number::toString, from the shortest digits that Python's repr finds too."""
    if value == 0:
        return "0"
    if value < 0:
        return "-" + float_text(-value)
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    sign = "-" if point < 1 else "+"
    rest = "." + digits[1:] if count > 1 else ""
    return digits[0] + rest + "e" + sign + str(abs(point - 1))


def string_text(value):
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def canonical(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(string_text(name) + ":" + canonical(value[name]) for name in names) + "}"


def value_vector(name, text):
    form = canonical(json.loads(text))
    return {"name": name, "input": text, "canonical": form, "sha256": hashlib.sha256(form.encode()).hexdigest()}


def random_numbers(count):
    rng = random.Random(8785)
    while count:
        bits = f"{rng.getrandbits(64):016x}" if count % 2 else struct.pack(">d", rng.uniform(-1e9, 1e9)).hex()
        if (int(bits, 16) >> 52) & 0x7FF != 0x7FF:
            count -= 1
            yield bits


def bytes_vector(text):
    digest = hashlib.sha256(b"\0hapax bytes\0" + bytes.fromhex(text)).hexdigest()
    return {"hex": text, "fingerprint": "1:" + digest}


def main():
    for bits, text in KNOWN_NUMBERS:
        assert float_text(float_of(bits)) == text, (bits, text)
    numbers = KNOWN_NUMBERS + [(bits, float_text(float_of(bits))) for bits in random_numbers(60)]
    vectors = {
        "version": 1,
        "values": [value_vector(*value) for value in VALUES],
        "numbers": [{"ieee754": bits, "text": text} for bits, text in numbers],
        "bytes": [bytes_vector(text) for text in BYTES],
    }
    json.dump(vectors, sys.stdout, indent=2)
    sys.stdout.write("\n")


main()
