"""Write config.json: what transformers makes of tokenizer_config.json.

Needs: pip install transformers==5.23.0 tokenizers==0.23.3. Run in this folder.
"""

import gzip
import json
import pathlib
import tempfile

from transformers import PreTrainedTokenizerFast, __version__

TEXTS = ["the end", " the  <tool_call> x<|im_end|>", "<|begin_of_text|>a<|eot_id|> the", "<|im_start|>the\n<|endoftext|> .", "a cat's 12,345 hats", "<|more|> [gMASK] the<11><2>  the end <|more|>x"]


def added(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False} | flags



FILES = {name: json.loads(gzip.open(name + ".json.gz").read()) for name in ("gpt2", "llama3", "qwen2")}


def more(name, contents, **flags):
    """Tokens that the file lacks, with the next free ids."""
    free = max([*FILES[name]["model"]["vocab"].values(), *(t["id"] for t in FILES[name]["added_tokens"])]) + 1
    return {str(free + i): added(content, **flags) for i, content in enumerate(contents)}


IDS = {t["content"]: t["id"] for t in FILES["qwen2"]["added_tokens"]}
CUT = {
    "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"},
}
CASES = [
    ("llama3", {}, {}),
    ("llama3", {"bos_token": "<|begin_of_text|>", "add_bos_token": False}, {}),
    ("llama3", {"bos_token": "<|begin_of_text|>", "eos_token": added("<|eot_id|>", __type="AddedToken", special=True), "add_eos_token": True, "add_bos_token": True}, {}),
    ("llama3", {"bos_token": None, "add_bos_token": True}, {}),
    ("qwen2", {"bos_token": "<|im_start|>", "add_bos_token": True, "add_prefix_space": False, "clean_up_tokenization_spaces": True}, {}),
    ("qwen2", {"eos_token": "the", "additional_special_tokens": ["<|im_start|>", "."]}, {}),
    ("qwen2", {"added_tokens_decoder": {str(IDS["<tool_call>"]): added("<tool_call>", special=True, lstrip=True, rstrip=True)}}, {}),
    ("qwen2", {"extra_special_tokens": {"call_token": "<tool_call>"}, "pad_token": "<|endoftext|>"}, {}),
    ("qwen2", {"extra_special_tokens": ["<tool_call>"], "image_token": "the"}, {}),
    ("qwen2", {"eos_token": "<tool_call>", "additional_special_tokens": ["the"]}, {}),
    ("gpt2", {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}, {}),
    ("gpt2", {"add_bos_token": None, "cls_token": "the"}, {}),
    ("gpt2", {}, CUT),
    ("llama3", {}, CUT),
    ("gpt2", {"added_tokens_decoder": more("gpt2", ["<|more|>", "[gMASK]", " the"]), "pad_token": "[gMASK]"}, {}),
    ("qwen2", {"added_tokens_decoder": more("qwen2", ["<|more|>", "the end"], normalized=True, rstrip=True)}, {}),
    ("llama3", {"added_tokens_decoder": more("llama3", [f"<{i}>" for i in range(12)], special=True), "eos_token": "<11>"}, {}),
]

cases = []
for name, config, changes in CASES:
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "tokenizer.json").write_text(json.dumps(FILES[name] | changes))
        pathlib.Path(folder, "tokenizer_config.json").write_text(json.dumps(config))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        plain = [tokenizer.encode(t, add_special_tokens=False) for t in TEXTS]
        cases.append({
            "tokenizer": name, "config": config, "changes": changes, "texts": TEXTS, "encoded": plain,
            "wrapped": [tokenizer.encode(t) for t in TEXTS], "decoded": [tokenizer.decode(ids, skip_special_tokens=True) for ids in plain],
        })
with open("config.json", "w") as out:
    json.dump({"version": __version__, "cases": cases}, out)
    out.write("\n")
