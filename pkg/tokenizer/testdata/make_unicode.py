"""Write ../unicode.txt: what the peer knows of every code point.

Nothing is taken from a Unicode database, because the peer holds three of
different versions: Oniguruma for \\p{L}, \\p{N} and \\s of split patterns, the
regex crate for the words and blanks around added tokens, and
unicode-normalization-alignments (Unicode 9.0) for NFC. Each property is asked
for by running the peer over all 1,112,064 code points.

Needs: pip install tokenizers==0.23.3. Run in this folder.
"""

import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, __version__, models, normalizers, pre_tokenizers

POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
EVERYTHING = "".join(map(chr, POINTS))


def ranges(points):
    runs = []
    for p in sorted(points):
        if runs and runs[-1][1] == p - 1:
            runs[-1][1] = p
        else:
            runs.append([p, p])
    return runs


def matching(pattern):
    removed = pre_tokenizers.Split(Regex(pattern), "removed")
    kept = set()
    for piece, _ in removed.pre_tokenize_str(EVERYTHING):
        kept.update(piece)
    return {p for p in POINTS if chr(p) not in kept}


def alone(**flags):
    """The code points c for which the text c# becomes one token: with
    single_word the added token # was not found after c, which is a word
    character; with lstrip it swallowed c, which is blank."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.add_tokens([AddedToken("#", normalized=False, **flags)])
    encodings = tokenizer.encode_batch([chr(p) + "#" for p in POINTS])
    return {p for p, e in zip(POINTS, encodings) if len(e.ids) == 1}


def normalize(normalizer, texts):
    """Normalize each text apart: a line feed neither composes nor reorders."""
    out = []
    for start in range(0, len(texts), 1 << 14):
        out += normalizer.normalize_str("\n".join(texts[start : start + (1 << 14)])).split("\n")
    assert len(out) == len(texts)
    return out


nfc, nfd = normalizers.NFC(), normalizers.NFD()
singles = [p for p in POINTS if p != ord("\n")]
decomposed = dict(zip(singles, normalize(nfd, [chr(p) for p in singles])))
hangul = set(range(0xAC00, 0xAC00 + 11172))  # composed by arithmetic
changed = [p for p in singles if decomposed[p] != chr(p) and p not in hangul]
stable = [p for p in singles if decomposed[p] == chr(p)]

# A mark of class 1 moves before, and one of class 240 behind, a mark between.
LOW, HIGH = "\u0334", "\u0345"
before = normalize(nfd, ["a" + chr(p) + LOW for p in stable])
behind = normalize(nfd, ["a" + HIGH + chr(p) for p in stable])
marks = [p for p, x, y in zip(stable, before, behind) if x != "a" + chr(p) + LOW or y != "a" + HIGH + chr(p)]
by_class = {}
for p in marks:  # the first mark of each class, none younger than Unicode 9
    by_class.setdefault(unicodedata.combining(chr(p)), chr(p))
classes = {}
values = sorted(by_class)
for p in marks:
    lower = [v for v in values if nfd.normalize_str("a" + chr(p) + by_class[v]) != "a" + chr(p) + by_class[v]]
    higher = [v for v in values if nfd.normalize_str("a" + by_class[v] + chr(p)) != "a" + by_class[v] + chr(p)]
    (same,) = set(values) - set(lower) - set(higher)
    assert max(lower, default=0) < same < min(higher, default=255)
    classes[p] = same

pairs = []
for p in changed:
    full = decomposed[p]
    if len(full) > 1 and nfc.normalize_str(full) == chr(p):
        first = nfc.normalize_str(full[:-1])
        assert len(first) == 1 and nfc.normalize_str(first + full[-1]) == chr(p), hex(p)
        pairs.append((ord(first), ord(full[-1]), p))

space = matching(r"\s")
assert space == alone(lstrip=True), "blanks of split patterns and of added tokens differ"

with open("../unicode.txt", "w") as out:
    out.write(f"# What tokenizers {__version__} knows of code points; made by testdata/make_unicode.py.\n")
    out.write("# letter, number, space, word: FROM TO. class: FROM TO CANONICAL_COMBINING_CLASS (not listed: 0).\n")
    out.write("# decompose: FROM INTO... (in full). compose: FIRST SECOND INTO. Hangul syllables are left out.\n")
    for name, points in (
        ("letter", matching(r"\p{L}")), ("number", matching(r"\p{N}")), ("space", space), ("word", alone(single_word=True)),
    ):
        for low, high in ranges(points):
            out.write(f"{name} {low:x} {high:x}\n")
    for value in sorted(set(classes.values())):
        for low, high in ranges(p for p in classes if classes[p] == value):
            out.write(f"class {low:x} {high:x} {value:x}\n")
    for p in changed:
        out.write(f"decompose {p:x} " + " ".join(f"{ord(c):x}" for c in decomposed[p]) + "\n")
    for first, second, into in sorted(pairs):
        out.write(f"compose {first:x} {second:x} {into:x}\n")
