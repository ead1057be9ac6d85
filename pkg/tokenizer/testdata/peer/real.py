"""Write what tokenizers makes of odd texts, for TestRealFiles.

usage: python real.py FOLDER OUT [COUNT]

FOLDER holds NAME/tokenizer.json of any policies. OUT gets texts.json and, for
each of them, NAME.json: per text the ids with special tokens found and spelled
out, the ids with those that the tokenizer puts around every text, the added
tokens with their offsets, and what two of three ids decode to with special
tokens kept and left out.

Needs: pip install tokenizers (0.23.3 was used).
"""

import json
import pathlib
import random
import sys

from tokenizers import Tokenizer

folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
count = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
out.mkdir(parents=True, exist_ok=True)
rng = random.Random(54)

WORDS = "the The THE quick brown it's we'll I'D they'Re don't naïve café cafe\u0301 Straße ŒUVRE ǅungla ﬁne ﬀ ½ ² Ⅷ ① ª º ſ İ ı Σας".split()
SCRIPTS = [
    "東京タワーは高い。", "你好，世界！", "한국어 텍스트", "\u1112\u1161\u11ab\u1100\u1173\u11af", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "Привет, мир", "Γειά σου Κόσμε", "Tiếng Việt", "𝒜𝓁𝓅𝒽𝒶", "𠀀𠮷野家", "አማርኛ", "ᏣᎳᎩ", "ภาษา", "བོད་ཡིག", "မြန်မာ", "ខ្មែរ", "\ua7cb\ua7dc\U00010d50", "ー〜々〆ゝゞ〇",
]
EMOJI = "🙂 👍🏽 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 ❤️ 1️⃣ #️⃣ 🧑🏿‍🚀 🫨 🏴󠁧󠁢󠁳󠁣󠁴󠁿".split(" ")
BLANKS = [" ", "  ", "   ", " " * 7, " " * 30, "\n", "\r\n", "\r", "\t", "\t\t", " \n", "\n\n", "\n \n", "\n" * 9, "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c", "\u1680", "\u200b", "\ufeff"]
DIGITS = ["0", "7", "12", "345", "6789", "1234567890", "1,234.56", "3.14", "٣٤٥٦", "४५६", "１２３", "𝟘𝟙", "0x1F", "1e-5", "12345" * 9]
OTHERS = [".", ",", "!", "?!", "...", "--", "__", "_", "/", "//", "\\", "()", "[]", "{}", "<>", "==", "&&", "#", "@", "%", "^", "~", "`", "\"", "'", "’", "$", "€", "…", "、", "。", "«»", "▁", "▁▁", "Ġ", "Ċ", "<0x0A>", "<0xZZ>", "\u0000", "\u0007", "\u007f", "\u008f", "\ufffd", "\ue000", "\U000f0000", "\u00ad", "\u0301", "\u20dd"]
CODE = ["def f(x):\n    return x+1\n", "for (int i = 0; i < n; ++i) {\n\t\ta[i] = 0;\n\t}\n", "if err != nil {\r\n\treturn err\r\n}", "<div class=\"a\">x</div>", "SELECT * FROM t WHERE a='b';", "https://a.b/c?d=e&f#g", "HTTPServerError2xx", "camelCaseIdentifier", "snake_case_name", "x=[1,2,3];", "-----", "======", "    # comment", "/** doc */"]
MARKS = ["\u0300", "\u0301", "\u0308", "\u0315", "\u0323", "\u0327", "\u0334", "\u0345", "\u05b4", "\u064b", "\u093c", "\u0e38", "\u3099", "\u1dfa", "\U0001e944"]
LIKE = ["<s>", "</s>", "<unk>", "<pad>", "<bos>", "<|endoftext|>", "<|im_start|>", "<|im_start", "im_end|>", "[INST]", "[/INST]", "<|", "|>", "<｜", "｜>", "<start_of_turn>", "<think>"]


def point():
    while True:
        p = rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x20000), rng.randrange(0x110000)])
        if not 0xD800 <= p < 0xE000:
            return chr(p)


def some(*pools):
    return lambda: "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 14)))


def prose():
    return rng.choice(["", " ", "\n"]) + " ".join(rng.choice(rng.choice([WORDS, WORDS, SCRIPTS, DIGITS])) for _ in range(rng.randrange(1, 25))) + rng.choice(["", " ", ".", "\n", "  "])


def marks():
    return "".join(rng.choice(["a", "e", "o", "ş", "\u1100", "가", "か", "1", " ", point()]) + "".join(rng.choice(MARKS) for _ in range(rng.choice([0, 1, 2, 3, 12]))) for _ in range(rng.randrange(1, 8)))


def runs():
    return rng.choice(rng.choice([WORDS, SCRIPTS, EMOJI, BLANKS, DIGITS, OTHERS, MARKS])) * rng.randrange(2, 120) + rng.choice(["", "a", " ", "\n"])


def kinds(added):
    return [prose, prose, some(WORDS, BLANKS, OTHERS), some(DIGITS, BLANKS, OTHERS), some(SCRIPTS, EMOJI, BLANKS), some(CODE, CODE, BLANKS), some(EMOJI, OTHERS, MARKS),
            marks, runs, lambda: "".join(point() for _ in range(rng.randrange(1, 20))), some(LIKE, added, WORDS, BLANKS), some(added, added, WORDS, BLANKS, OTHERS, ["", "a", "é"])]


texts = ["", " ", "  ", "\n", "a", " a", "a ", "▁", " ▁", "▁a"]
pool = kinds(LIKE)
while len(texts) < count:
    texts.append(rng.choice(pool)())
json.dump(texts, open(out / "texts.json", "w"))

for path in sorted(folder.glob("*/tokenizer.json")):
    name = path.parent.name
    target = out / (name + ".json")
    if target.exists():
        continue
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    added = {i: t.content for i, t in tokenizer.get_added_tokens_decoder().items()}
    rng = random.Random(name)
    contents = rng.sample(sorted(added.values()), min(30, len(added))) or ["x"]
    own = some(contents, contents, WORDS, BLANKS, OTHERS, ["", "a", "é", "▁"])
    all_texts = texts + [own() for _ in range(count // 10)]
    rows = []
    for text in all_texts:
        try:
            encoding = tokenizer.encode(text, add_special_tokens=False)
            ids = encoding.ids
            kept = [id for j, id in enumerate(ids) if j % 3 != 1]
            rows.append({
                "ids": ids,
                "around": tokenizer.encode(text).ids,
                "added": [[id, *offset] for id, offset in zip(ids, encoding.offsets) if id in added],
                "kept": kept,
                "decoded": tokenizer.decode(kept, skip_special_tokens=False),
                "skipped": tokenizer.decode(kept, skip_special_tokens=True),
                "whole": tokenizer.decode(ids, skip_special_tokens=False),
            })
        except BaseException as e:  # the peer panics, such as at a Strip of more than there is
            rows.append({"error": str(e)})
    tokenizer.encode_special_tokens = True
    for text, row in zip(all_texts, rows):
        if "ids" in row:
            row["spelled"] = tokenizer.encode(text, add_special_tokens=False).ids
    json.dump({"own": all_texts[len(texts):], "rows": rows}, open(target, "w"))
    print(name, len(rows), sum("error" in r for r in rows), flush=True)
