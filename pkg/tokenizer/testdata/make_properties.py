"""Write ../properties.txt: what the peer knows of code points beyond ../unicode.txt.

General categories and scripts are those of Oniguruma (patterns of Split and
Replace), lowercase and numeric those of Rust's standard library, punctuation
that of unicode_categories, marks and compatibility decompositions those of
unicode-normalization-alignments (Unicode 9.0). Each is asked for by running the
peer over all code points, as in make_unicode.py.

Needs: pip install tokenizers==0.23.3. Run in this folder.
"""

from tokenizers import Regex, __version__, normalizers, pre_tokenizers

POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
EVERYTHING = "".join(map(chr, POINTS))

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCRIPTS = "Arabic Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin Thai".split()


def ranges(points):
    runs = []
    for p in sorted(points):
        if runs and runs[-1][1] == p - 1:
            runs[-1][1] = p
        else:
            runs.append([p, p])
    return runs


def removed_by(pre_tokenizer):
    kept = set()
    for piece, _ in pre_tokenizer.pre_tokenize_str(EVERYTHING):
        kept.update(piece)
    return [p for p in POINTS if chr(p) not in kept]


def matching(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def normalize(normalizer, texts):
    out = []
    for start in range(0, len(texts), 1 << 14):
        out += normalizer.normalize_str("\n".join(texts[start : start + (1 << 14)])).split("\n")
    assert len(out) == len(texts)
    return out


singles = [p for p in POINTS if p != ord("\n")]
each = [chr(p) for p in singles]
canonical, compatible = normalize(normalizers.NFD(), each), normalize(normalizers.NFKD(), each)
lowered = normalize(normalizers.Lowercase(), each)
bare = normalize(normalizers.StripAccents(), each)
digits, isolated = pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Punctuation("removed")
numeric, numbers = [], False
for piece, _ in digits.pre_tokenize_str("a" + "a".join(each) + "a"):
    numbers = len(piece) == 1 and piece != "a"
    if numbers:
        numeric.append(ord(piece))

sets = {c: matching(r"\p{%s}" % c) for c in CATEGORIES + SCRIPTS}
sets["word"] = matching(r"\w")
sets["numeric"] = numeric
sets["punctuation"] = removed_by(isolated)
sets["mark"] = [p for p, text in zip(singles, bare) if text == ""]

with open("../properties.txt", "w") as out:
    out.write(f"# More of what tokenizers {__version__} knows of code points; made by testdata/make_properties.py.\n")
    out.write("# A set: its name, then FROM or FROM-TO. compatible, lower: FROM INTO...\n")
    for name, points in sets.items():
        out.write(name + "".join(f" {a:x}" if a == b else f" {a:x}-{b:x}" for a, b in ranges(points)) + "\n")
    for name, texts, before in (("compatible", compatible, canonical), ("lower", lowered, each)):
        for p, text, old in zip(singles, texts, before):
            if text != old:
                out.write(f"{name} {p:x} " + " ".join(f"{ord(c):x}" for c in text) + "\n")
