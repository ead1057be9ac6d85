"""Renders conversations of golden.json.gz with transformers' continue_final_message,
for final_golden.json.gz: each is cut behind each message of the assistant whose
content is a text, with blanks at its end every other time.

Usage: python make_final_golden.py     (transformers 5.24)
"""

import copy
import datetime
import gzip
import json
import pathlib

from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
golden = json.loads(gzip.decompress((HERE / "golden.json.gz").read_bytes()))


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(*map(int, golden["date"].split("-")))


chat_template_utils.datetime = FixedDate
SPECIAL = {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
cases = []
for i, conversation in enumerate(golden["conversations"]):
    for end, message in enumerate(conversation["messages"]):
        if message.get("role") == "assistant" and isinstance(message.get("content"), str) and message["content"]:
            cut = copy.deepcopy(conversation["messages"][: end + 1])
            if len(cases) % 2:
                cut[-1]["content"] += " \n"
            cases.append({"Conversation": i, "Messages": cut})
templates = []
for template in golden["templates"]:
    texts = []
    for case in cases:
        of = golden["conversations"][case["Conversation"]]
        try:
            rendered, _ = chat_template_utils.render_jinja_template(
                [[{k: v for k, v in m.items() if v is not None} for m in copy.deepcopy(case["Messages"])]], tools=of.get("tools"), chat_template=template["template"], continue_final_message=True,
                **SPECIAL, **(of.get("variables") or {}))
            texts.append({"Text": rendered[0]})
        except Exception as error:
            texts.append({"Error": type(error).__name__})
    templates.append({"Name": template["name"], "Texts": texts})
    print(template["name"], len(texts), sum("Error" in t for t in texts))
text = json.dumps({"Cases": cases, "Templates": templates}, ensure_ascii=False).encode()
(HERE / "final_golden.json.gz").write_bytes(gzip.compress(text, mtime=0))
