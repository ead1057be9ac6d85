"""Write the texts, vocabularies and golden ids of this folder.

texts.json.gz     texts of many kinds, for every tokenizer
NAME.json.gz      a tokenizer.json in the configuration of GPT-2, Llama 3 or
                  Qwen2, trained here, and two with every flag of added tokens
golden.json.gz    per tokenizer: for each text a digest of its ids, with
                  special tokens found and spelled out, and of two decodings
                  of most of them; all ids of some texts

Needs: pip install tokenizers==0.23.3. Run in this folder. The code among the
texts is whatever ../../../.. holds, so that a new run gives other texts.
"""

import base64
import gzip
import hashlib
import json
import pathlib
import random
import struct
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, processors, trainers

rng = random.Random(20250301)
SENTENCES = pathlib.Path("sentences.txt").read_text(encoding="utf-8").splitlines()
ROOT = pathlib.Path("../../../..")
CODE = [
    p.read_text(encoding="utf-8")
    for pattern in ("pkg/**/*.go", "cmd/**/*.go", "*.md", "jobs/*.yaml", "slurm/*", "analysis/*.sql", "pkg/**/*.py")
    for p in sorted(ROOT.glob(pattern))
    if p.is_file()
]

EMOJI = (
    "🙂 🙃 😀 👍 👍🏽 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🇯🇵 ❤️ ☃️ 1️⃣ #️⃣ 🧑🏿‍🚀 🤷‍♀️ ✈︎ 🫨 🪿 🏴󠁧󠁢󠁳󠁣󠁴󠁿"
).split(" ")
BLANKS = [" ", "  ", "   ", "\n", "\r\n", "\r", "\t", " \n", "\n\n", "\n \n", "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c", "\u1680", "\u200b"]
CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'m", "'M", "'ll", "'lL", "'d", "'D", "'\u017f", "'\u212a", "'x", "''s", "’s", "'lx", "'r", "'", "'é"]
DIGITS = ["0", "7", "12", "345", "6789", "1234567890", "٣٤", "४५६", "１２", "Ⅷ", "½", "²", "①", "๑๒๓๔", "𝟘𝟙", "〇", "三"]
LETTERS = ["a", "word", "Word", "WORD", "é", "e\u0301", "ß", "ſ", "ǅ", "ª", "東京", "한글", "\u1112\u1161\u11ab", "ไทย", "हिन्दी", "Ω", "א", "ع", "𝒜", "\U0001e900", "\U00020000", "\ua7cb", "\U00011bc0"]
OTHERS = [".", ",", "!", "?!", "...", "-", "--", "_", "/", "\\", "(", ")", "[", "]", "{}", "<", ">", "<|", "|>", "=", "==", "&&", "#", "@", "%", "^", "~", "`", "\"", "$", "€", "…", "、", "。", "«", "»", "\u0000", "\u0007", "\u007f", "\ufeff", "\ufffd", "\ue000", "\U000f0000", "\u00ad", "\u0301", "\u20dd"]
MARKS = ["\u0300", "\u0301", "\u0302", "\u0303", "\u0308", "\u030a", "\u0315", "\u031b", "\u0323", "\u0327", "\u0328", "\u0334", "\u0345", "\u0591", "\u05b4", "\u064b", "\u0651", "\u093c", "\u094d", "\u0e38", "\u0f71", "\u0f72", "\u3099", "\u1dc0", "\u1dfa", "\u08d3", "\U0001e944", "\U00011930", "\u1b35", "\u09be", "\u0bbe"]
BASES = ["a", "e", "o", "A", "O", "u", "s", "ş", "Å", "\u212b", "\u2126", "ệ", "ǭ", "\u1100", "\u1161", "\u11a8", "가", "각", "か", "ハ", "\u0915", "\u0958", "\u09c7", "\u0bc6", "\u0dd9", "\u1b05", "\U000110a5", "\U00011935", "\U0001d15e", "\u0344", "\u0f73", "\u2adc", "\ufb1d", "豈", "\U0002f800", "1", " "]
ADDED = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|begin_of_text|>", "<|eot_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_7|>", "<|reserved_special_token_77|>", "<|im_start", "<|im_end|>|>", "<|<|im_end|>",
    "[LEFT]", "[RIGHT]", "[BOTH]", "[WORD]", "[LEFT][RIGHT]", "whole", "café", "cafe\u0301", "<n>", "<n", "<n>n", "\t\t", "ä", "<|x y|>", "\u212b",
]


def pick(*pools):
    return rng.choice(rng.choice(pools))


def sample(count, make):
    return [make() for _ in range(count)]


def words():
    return " ".join(rng.choice(rng.choice(SENTENCES).split()) for _ in range(rng.randrange(1, 14)))


def prose():
    text = rng.choice([" ", "\n", "  ", "\n\n"]).join(rng.choice(SENTENCES) for _ in range(rng.randrange(1, 3)))
    return rng.choice([str, str, str.upper, str.title, lambda s: unicodedata.normalize("NFD", s), lambda s: unicodedata.normalize("NFKC", s)])(text)


def code():
    lines = rng.choice(CODE).splitlines(keepends=True)
    start = rng.randrange(len(lines))
    text = "".join(lines[start : start + rng.randrange(1, 5)])
    return rng.choice([lambda s: s, lambda s: s, lambda s: s.replace("\n", "\r\n"), lambda s: s.replace("\t", "    ")])(text)


def pieces():
    return "".join(pick(BLANKS, CONTRACTIONS, DIGITS, LETTERS, OTHERS, LETTERS, BLANKS) for _ in range(rng.randrange(1, 16)))


def emoji():
    return "".join(pick(EMOJI, EMOJI, EMOJI, BLANKS, LETTERS, OTHERS) for _ in range(rng.randrange(1, 10)))


def marks():
    return "".join(rng.choice(BASES) + "".join(rng.choice(MARKS) for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 5, 40]))) for _ in range(rng.randrange(1, 6)))


def added():
    return "".join(pick(ADDED, ADDED, ADDED, BLANKS, LETTERS, OTHERS, DIGITS) for _ in range(rng.randrange(1, 9)))


def points():
    def point():
        while True:
            p = rng.choice([rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x20000), rng.randrange(0x110000)])
            if not 0xD800 <= p < 0xE000:
                return chr(p)

    return "".join(point() for _ in range(rng.randrange(1, 12)))


def broken():
    raw = bytearray(pick([words(), emoji(), pieces()]).encode())
    for _ in range(rng.randrange(1, 4)):
        i = rng.randrange(len(raw) + 1)
        raw[i : i + rng.randrange(2)] = bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
    return bytes(raw).decode("utf-8", "replace")


def runs():
    return pick(LETTERS, DIGITS, BLANKS, OTHERS, EMOJI) * rng.randrange(2, 150) + pick(LETTERS, DIGITS, BLANKS, OTHERS, [""])


edges = [""] + [x + y for x in BLANKS + CONTRACTIONS for y in ["", "a", "1", ".", "\n", " "]] + [a + b + a for a in LETTERS[:6] + DIGITS[:6] for b in BLANKS + CONTRACTIONS]
kinds = [
    ("prose", 1300, prose), ("words", 1400, words), ("code", 1500, code), ("pieces", 2200, pieces), ("emoji", 700, emoji),
    ("marks", 1000, marks), ("added", 1600, added), ("points", 700, points), ("broken", 700, broken), ("runs", 300, runs),
]
texts = list(edges)
for _, count, make in kinds:
    texts += sample(count, make)
texts = list(dict.fromkeys(texts))
assert len(texts) >= 10_500, len(texts)

TRAINING = [s for s in SENTENCES for _ in range(8)] + sample(4000, words) + sample(4000, code) + sample(2000, pieces) + sample(300, emoji)

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split(pattern, **byte_level):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(**({"add_prefix_space": False, "use_regex": False} | byte_level)),
    ])


def train(size, pre_tokenizer, normalizer=None, specials=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(TRAINING, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=list(specials), show_progress=False))
    return tokenizer


def edit(tokenizer, drop, old_merges=False, **model):
    """Drop each drop-th merge that no other uses: its token stays, and only
    ignore_merges reaches it. With old_merges they are spelled "a b"."""
    file = json.loads(tokenizer.to_str())
    merges = file["model"]["merges"]
    used = {part for m in merges for part in m}
    leaves = [m for m in merges if "".join(m) not in used][::drop]
    file["model"]["merges"] = [" ".join(m) if old_merges else m for m in merges if m not in leaves]
    file["model"].update(model)
    return Tokenizer.from_str(json.dumps(file)), json.dumps(file, ensure_ascii=False, separators=(",", ":"))


def special(*contents):
    return [AddedToken(c, special=True, normalized=False) for c in contents]


made = {}

gpt2 = train(4500, pre_tokenizers.ByteLevel(add_prefix_space=False), specials=["<|endoftext|>"])
made["gpt2"] = edit(gpt2, 40, old_merges=True)

llama3 = train(6000, split(LLAMA3))
llama3.add_special_tokens(special(
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
    *[f"<|reserved_special_token_{i}|>" for i in range(3, 248)]))
bos = llama3.token_to_id("<|begin_of_text|>")
llama3.post_processor = processors.Sequence([
    processors.ByteLevel(trim_offsets=False),
    processors.TemplateProcessing("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", [("<|begin_of_text|>", bos)]),
])
made["llama3"] = edit(llama3, 30, ignore_merges=True)

qwen2 = train(6000, split(QWEN2), normalizers.NFC())
qwen2.add_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>") + [
    AddedToken(c, normalized=False) for c in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
made["qwen2"] = edit(qwen2, 40)

FLAGS = [
    AddedToken("[LEFT]", lstrip=True, normalized=False), AddedToken("[RIGHT]", rstrip=True, normalized=False),
    AddedToken("[BOTH]", lstrip=True, rstrip=True, special=True, normalized=False), AddedToken("[WORD]", single_word=True, normalized=False),
    AddedToken("whole", single_word=True, normalized=True), AddedToken("café", normalized=True), AddedToken("<n>", normalized=True),
    AddedToken("<n>n", normalized=False), AddedToken("\t\t", rstrip=True, normalized=False), AddedToken("ä", normalized=False),
    AddedToken("<|x y|>", special=True, normalized=False), AddedToken("<|im_start|>", special=True, lstrip=True, normalized=True),
    AddedToken("\u212b", normalized=True), AddedToken("[LEFT][RIGHT", normalized=False),
]
flags1 = train(900, split(LLAMA3, add_prefix_space=True), normalizers.Sequence([normalizers.NFC()]))
flags1.add_tokens(FLAGS)
end = flags1.token_to_id("<n>")
flags1.post_processor = processors.TemplateProcessing("<n> $A ä <n>", special_tokens=[("<n>", end), ("ä", flags1.token_to_id("ä"))])
made["flags1"] = edit(flags1, 20)
flags2 = train(900, split(QWEN2, add_prefix_space=True, use_regex=True))
flags2.add_tokens(FLAGS)
made["flags2"] = edit(flags2, 20, ignore_merges=True)
flags3 = train(700, pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False))
flags3.add_tokens(FLAGS)
made["flags3"] = edit(flags3, 20)


def write(name, content):
    with open(name, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(content.encode())


def digest(*parts):
    """Four bytes of SHA-256 over ids as little-endian 32 bits, and text."""
    packed = b"".join(p.encode() if isinstance(p, str) else struct.pack(f"<{len(p)}I", *p) for p in parts)
    return hashlib.sha256(packed).digest()[:4]


# In planes that are not listed no code point is a letter, number, blank or mark.
PLANES = {"qwen2": [0, 1, 2, 3, 14, 16], "gpt2": [0, 1], "llama3": [0, 1], "flags1": [0, 1]}


def sweep(plane):
    """Every code point of a plane in the contexts that patterns, NFC and
    added tokens tell apart, 256 to a text."""
    for start in range(plane << 16, (plane + 1) << 16, 256):
        if not 0xD800 <= start < 0xE000:
            yield "".join(f"a{c}{c}1'{c}\u0301'l{c}'r{c} [WORD]{c}[LEFT]" for c in map(chr, range(start, start + 256)))


def sweep_digest(tokenizer, plane):
    packed = hashlib.sha256()
    for encoding in tokenizer.encode_batch(list(sweep(plane)), add_special_tokens=False):
        packed.update(struct.pack(f"<{len(encoding.ids)}I", *encoding.ids))
    return packed.hexdigest()


golden = {"version": __version__, "tokenizers": []}
for name, (tokenizer, file) in made.items():
    found = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    wrapped = [e.ids for e in tokenizer.encode_batch(texts[:50], add_special_tokens=True)]
    tokenizer.encode_special_tokens = True
    spelled = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    tokenizer.encode_special_tokens = False
    # Two of three ids make characters that break off, and more.
    kept = [[x for i, x in enumerate(ids) if i % 3] + [tokenizer.get_vocab_size() + 3] for ids in found]
    texts_of = [(tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)) for ids in kept]
    golden["tokenizers"].append({
        "name": name,
        "digests": base64.b64encode(b"".join(digest(f, s, a, b) for f, s, (a, b) in zip(found, spelled, texts_of))).decode(),
        "planes": {str(plane): sweep_digest(tokenizer, plane) for plane in PLANES.get(name, [])},
        "wrapped": wrapped,
        "full": {str(i): found[i] for i in range(0, len(texts), 40)},
    })
    write(name + ".json.gz", file)
    print(name, tokenizer.get_vocab_size(), sum(map(len, found)), "ids")
write("texts.json.gz", json.dumps(texts, ensure_ascii=True))
write("golden.json.gz", json.dumps(golden))
print(len(texts), "texts,", sum(len(t.encode()) for t in texts), "bytes")
