"""Compute golden.json from the .tokenizer.json files beside it.

Needs: pip install tokenizers==0.23.3 jinja2==3.1.6. Run in this folder.
"""

import json
import random

import jinja2
from tokenizers import Tokenizer

TEXTS = [
    "", " ", "the cat's hat", "it's we'll I'd 'x 's", "a  b", "a \n b\n\n\tc  ", "12+345 = 6 789",
    "naïve café — déjà vu", "東京タワー🙂🙂", "a<|end|>b<|user|>xx<|user|>", "\u00a0\u3000z\u0085 q", "the the thethethe",
]
rng = random.Random(0)
ALPHABET = "thecasm '\n\t  .,12345é東京🙂\u00a0\u2009<|end|>"
TEXTS += ["".join(rng.choice(ALPHABET) for _ in range(rng.randrange(1, 60))) for _ in range(120)]

cases = []
for name in ("bytes", "bpe", "numbers"):
    tokenizer = Tokenizer.from_file(name + ".tokenizer.json")
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text, (name, text)
        cases.append({"tokenizer": name, "text": text, "ids": ids})

TEMPLATE = json.load(open("template.json"))
messages = [{"role": r, "content": c} for r, c in (("system", "S"), ("user", "U"), ("assistant", "B"))]
rendered = jinja2.Environment().from_string(TEMPLATE).render(messages=messages, add_generation_prompt=True)
json.dump({"template": TEMPLATE, "rendered": rendered, "cases": cases}, open("golden.json", "w"), ensure_ascii=True, indent=0)
