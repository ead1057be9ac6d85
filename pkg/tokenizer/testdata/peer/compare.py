"""Compare `lathe policy tokenize` with the peer on a policy's real tokenizer.

    python compare.py LATHE FOLDER [TEXTFILE...]

FOLDER holds tokenizer.json. The texts are those of texts.json.gz and, if given,
each line and the whole of the text files. Needs: pip install tokenizers==0.23.3.
"""

import gzip
import json
import subprocess
import sys
import time

from tokenizers import Tokenizer

lathe, folder, *files = sys.argv[1:]
texts = json.load(gzip.open("texts.json.gz"))
for name in files:
    content = open(name, encoding="utf-8", errors="replace", newline="").read()
    texts += [content, *content.splitlines(keepends=True)]
questions = "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)).encode()
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
for flags, spelled, special in (([], False, False), (["--split-special-tokens"], True, False), (["--add-special-tokens"], False, True)):
    start = time.monotonic()
    answers = subprocess.run([lathe, "policy", "tokenize", "--model", folder, *flags], input=questions, capture_output=True, check=True)
    seconds = time.monotonic() - start
    tokenizer.encode_special_tokens = spelled
    want = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=special)]
    got = [json.loads(line) for line in answers.stdout.splitlines()]
    assert [a["id"] for a in got] == list(range(len(texts)))
    wrong = [i for i, a in enumerate(got) if a["token_ids"] != want[i]]
    print(folder, flags, f"{len(texts)} texts, {sum(map(len, want))} ids, {len(wrong)} differ, {seconds:.1f} s")
    for i in wrong[:5]:
        print(repr(texts[i])[:300], got[i]["token_ids"][:40], want[i][:40])
