"""Write kinds.json.gz: a small tokenizer of each kind that is supported, and
what tokenizers makes of odd texts with it (see real.py, which this runs).

Needs: pip install tokenizers==0.23.3. Run in this folder.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tokenizers import normalizers as n

p, d = pre_tokenizers, decoders
SENTENCES = pathlib.Path("sentences.txt").read_text(encoding="utf-8").splitlines()
TEXTS = SENTENCES + ["def f(x):\n    return 12 + 345\n", "the THE The cat's 2024-01-31 naïve café ▁ _ a-b", "東京 タワー 한국어"] * 20
BYTES = ["<0x%02X>" % b for b in range(256)]
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
LEVEL = p.ByteLevel(add_prefix_space=False, use_regex=False)
PIECES = [d.Replace("▁", " "), d.ByteFallback(), d.Fuse()]


def split(pattern, behavior="isolated", invert=False):
    return p.Split(pattern, behavior, invert)


def special(content, **flags):
    return AddedToken(content, special=True, normalized=False, **flags)


def around(processor):
    return lambda t: setattr(t, "post_processor", processor)


TEMPLATE = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
ROBERTA = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))

# name: normalizer, pre-tokenizer, decoder, settings of the model, first tokens, characters, more
KINDS = {
    "digits": (None, p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)]), d.ByteLevel(), {}, [], 90, None),
    "unknown byte": (None, p.ByteLevel(add_prefix_space=True), d.ByteLevel(), {"unk_token": "<unk>", "fuse_unk": True}, [], 60, around(ROBERTA)),
    "llama2": (n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), None, d.Sequence(PIECES + [d.Strip(" ", 1, 0)]), {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}, BYTES, 60, around(TEMPLATE)),
    "gemma": (n.Replace(" ", "▁"), split(" ", "merged_with_previous"), d.Sequence(PIECES), {"unk_token": "<unk>", "byte_fallback": True}, BYTES[:0xE8], 40, None),
    "metaspace always": (None, p.Metaspace(), d.Metaspace(), {"unk_token": "<unk>"}, [], 50, None),
    "metaspace first": (n.NFKC(), p.Metaspace(prepend_scheme="first", split=False), d.Metaspace(prepend_scheme="first"), {"unk_token": "<unk>", "fuse_unk": True}, [], 50, None),
    "metaspace never": (n.NFKD(), p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="never")]), d.Sequence([d.Metaspace(prepend_scheme="never"), d.Fuse(), d.Strip(" ", 2, 3)]), {}, [], 50, None),
    "o200k": (None, p.Sequence([split(Regex(O200K), "removed", True), LEVEL]), d.ByteLevel(), {"ignore_merges": True}, [], 256, None),
    "deepseek": (None, p.Sequence([split(Regex(r"\p{N}{1,3}")), split(Regex("[一-龥぀-ゟ゠-ヿ]+")), split(Regex(DEEPSEEK)), LEVEL]), d.ByteLevel(), {}, [], 256, None),
    "falcon": (None, p.Sequence([p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(), split(Regex("[0-9][0-9][0-9]"))]), d.ByteLevel(), {}, [], 200, None),
    "plain": (n.Sequence([n.Nmt(), n.Strip(), n.NFD(), n.StripAccents(), n.Lowercase()]), p.Sequence([p.Whitespace(), p.Punctuation("merged_with_next")]), None, {"unk_token": "<unk>"}, [], 60, None),
    "merged": (n.NFC(), p.Sequence([split("e", "merged_with_next"), split(Regex("[aiou]+"), "contiguous"), split(Regex(r"\s+"), "merged_with_previous", True), split("t", "removed")]), d.Sequence([d.Replace(Regex("[xyz]"), "?"), d.Strip("a", 1, 0)]), {"unk_token": "<unk>"}, [], 60, None),
    "byte normalizer": (n.Sequence([n.Replace(Regex(r"\s{2,}"), " "), n.ByteLevel()]), split(Regex("Ġ?[a-z]+|[^a-z]")), d.Sequence([d.ByteLevel(), d.Replace("the", "THE")]), {}, [], 200, None),
}

with tempfile.TemporaryDirectory() as folder:
    for name, (normalizer, pre_tokenizer, decoder, model, first, alphabet, more) in KINDS.items():
        tokenizer = Tokenizer(models.BPE(**model))
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre_tokenizer:
            tokenizer.pre_tokenizer = pre_tokenizer
        trainer = trainers.BpeTrainer(vocab_size=len(first) + alphabet + 150, limit_alphabet=alphabet, special_tokens=["<s>", "</s>", "<unk>"] + first, show_progress=False)
        tokenizer.train_from_iterator(TEXTS, trainer)
        if decoder:
            tokenizer.decoder = decoder
        state = json.loads(tokenizer.to_str())
        # Tokens for bytes are no added tokens, except to the trainer.
        state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] not in first]
        tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.add_tokens([special("[LEFT]", lstrip=True), special("[RIGHT]", rstrip=True), AddedToken("[WORD]", single_word=True, normalized=False), AddedToken("Thé", normalized=True), special("<end>")])
        if more:
            more(tokenizer)
        home = pathlib.Path(folder, name)
        home.mkdir()
        tokenizer.save(str(home / "tokenizer.json"))
    out = pathlib.Path(folder, "out")
    subprocess.run([sys.executable, "real.py", folder, str(out), "140"], check=True)
    kinds = {name: {"tokenizer": json.loads(pathlib.Path(folder, name, "tokenizer.json").read_text()), **json.loads((out / (name + ".json")).read_text())} for name in KINDS}
    everything = {"texts": json.loads((out / "texts.json").read_text()), "kinds": kinds}
with open("kinds.json.gz", "wb") as f:
    f.write(gzip.compress(json.dumps(everything).encode(), 9, mtime=0))
