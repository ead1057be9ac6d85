"""Holds rewards through lathe_env.py to those of calling the functions in Python.

With trl 1.16.0, verl 0.9.1, verifiers 0.1.9.post3, math-verify 0.9.0 and reasoning-gym
installed: python3 golden.py SITE-PACKAGES > golden.jsonl. Each function judges 1,000
responses twice, called as its own trainer calls it and asked over the protocol, 16 at a
time; every 100th is kept in golden.jsonl. What differs is said, and the exit code is 1.
"""

import asyncio
import importlib.util
import json
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LATHE_ENV = os.path.join(HERE, "../../../../../data/program/lathe_env.py")
PACKAGES = sys.argv[1]
VERL = os.path.join(PACKAGES, "verl/utils/reward_score")


def responses():
    numbers = random.Random(1)
    for i in range(1000):
        gold = numbers.choice(["42", r"\frac{1}{3}", "-7", r"\sqrt{2}", "1,234", "x^2+1", "0.5"])
        said = numbers.choice([gold, gold, gold.replace("1", "2"), "17", "", r"\frac13", "1234", r"\dfrac{1}{2}"])
        form = numbers.choice([r"\boxed{%s}", "The answer is $%s$.", "#### %s", "<think>\nwell\n</think>\nso it is \\boxed{%s}", "%s", r"<think>\boxed{%s}</think> no", "so so so so %s"])
        yield {"i": i, "gold": gold, "said": form % said}


def item(row, chat, **columns):
    return {
        "task": {"id": str(row["i"]), "split": "train", "kind": "k", "level": 0, "question": "q", "answer": row["gold"], "seed": row["i"], "chat": chat, "columns": columns},
        "kind": "initial", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": row["said"]}], "opening": 1, "own": [1], "finish": "stop",
    }


class Program:
    def __init__(self, *words):
        self.process = subprocess.Popen([sys.executable, LATHE_ENV, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        self.id = 0
        self.ask("describe", {"protocol": 1})

    def lines(self, verb, content):
        self.id += 1
        self.process.stdin.write(json.dumps({"id": self.id, verb: content}) + "\n")
        self.process.stdin.flush()
        while True:
            line = json.loads(self.process.stdout.readline())
            assert line["id"] == self.id, line
            yield line
            if "task" not in line:
                return

    def ask(self, verb, content):
        return list(self.lines(verb, content))[-1]["result"]

    def score(self, items):
        return [v for i in range(0, len(items), 16) for v in self.ask("score", items[i : i + 16])]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(name, words, items, want):
    program = Program(*words)
    got = program.score(items)
    program.end()
    differ = [(w, g) for w, g in zip(want, got) if w != g.get("reward")]
    print(name, len(items), "responses,", len(set(want)), "different rewards, mean", sum(want) / len(want), ",", len(differ), "differ", differ[:2], file=sys.stderr)
    for i in range(0, len(items), 100):
        print(json.dumps({"name": name, "item": items[i], "reward": want[i]}))
    return not differ


def loaded(path):
    spec = importlib.util.spec_from_file_location("others", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trl(rows):
    """TRL's other rewards take the ids of tokens, which a program is not told."""
    from trl import rewards

    chats = [[{"role": "assistant", "content": r["said"]}] for r in rows]
    for name in ("accuracy_reward", "reasoning_accuracy_reward", "think_format_reward"):
        want = getattr(rewards, name)(completions=chats, solution=[r["gold"] for r in rows])
        yield compare("trl " + name, [f"trl.rewards:{name}"], [item(r, True, solution=r["gold"]) for r in rows], [w or 0.0 for w in want])
    several = [0.7 * (a or 0.0) + 0.3 * b for a, b in zip(rewards.accuracy_reward(chats, [r["gold"] for r in rows]), rewards.think_format_reward(chats))]
    words = ["--weights", "0.7,0.3", "trl.rewards:accuracy_reward", "trl.rewards:think_format_reward"]
    yield compare("trl two weighted", words, [item(r, True, solution=r["gold"]) for r in rows], several)


def verl(rows):
    for name in ("gsm8k", "math_reward"):
        path = os.path.join(VERL, name + ".py")
        want = [float(loaded(path).compute_score(solution_str=r["said"], ground_truth=r["gold"])) for r in rows]
        yield compare("verl " + name, [path], [item(r, False, data_source="openai/gsm8k", extra_info={}) for r in rows], want)


async def native(environment, row, said):
    """A rollout of verifiers' own loop, whose model says what is given."""
    from openai.types.chat import ChatCompletion

    script = iter(said)

    async def respond(state, prompt, *rest, **others):
        text = next(script)
        message = {"role": "assistant", "content": text}
        calls = [json.loads(c.split("</tool_call>")[0]) for c in text.split("<tool_call>")[1:]]
        if calls:
            message["tool_calls"] = [{"id": f"call_{i}", "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])}} for i, c in enumerate(calls)]
        return ChatCompletion.model_validate({"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]})

    environment.get_model_response = respond
    state = await environment.rollout({k: row[k] for k in ("prompt", "answer", "task", "info", "example_id") if row.get(k) is not None}, None, "m")
    await environment.rubric.score_rollout(state, asyncio.Semaphore())
    said = [m for m in state["completion"] if m["role"] == "assistant"]
    return float(state["reward"]), [{"role": m["role"], "content": m["content"]} for m in state["completion"]], len(said)


def verifiers(_):
    environments = loaded(os.path.join(HERE, "environments.py"))
    numbers = random.Random(2)
    for name in ("letters", "sums", "gym"):
        environment, what = getattr(environments, name)(), f"environments.py:{name}"
        program = Program("--style", "verifiers", what)
        tasks = [line["task"] for line in program.lines("tasks", {"split": "train", "seed": 1}) if "task" in line]
        program.end()
        items, want = [], []
        for i in range(1000):
            task, row = tasks[i % len(tasks)], environment.get_dataset()[i % len(tasks)]
            right = environment.rg_dataset[int(row["answer"])]["answer"] if name == "gym" else row["answer"]
            guess = numbers.choice([right, right, right[:-1] + "0", "17", ""])
            said = [numbers.choice(["<think>\nx\n</think>\n<answer>\n%s\n</answer>", "<answer>%s</answer>", "%s"]) % guess]
            if name == "sums" and numbers.random() < 0.7:
                call = {"name": numbers.choice(["add", "add", "sub"]), "arguments": {"a": numbers.randrange(9), "b": numbers.choice([1, "x"])}}
                said.insert(0, f"<tool_call>{json.dumps(call)}</tool_call>")
            reward, completion, turns = asyncio.run(native(environment, row, said))
            assert turns == len(said)
            prompt = task["prompt"]
            messages = prompt + completion
            own = [len(prompt) + at for at, m in enumerate(completion) if m["role"] == "assistant"]
            items.append({
                "task": {"id": task["id"], "split": "train", "kind": "k", "level": 0, "question": "q", "answer": task.get("answer"), "seed": i, "chat": True, "columns": task},
                "kind": "initial", "messages": messages, "opening": len(prompt), "own": own, "finish": "stop",
            })
            want.append(reward)
        yield compare("verifiers " + name, ["--style", "verifiers", what], items, want)


if __name__ == "__main__":
    rows = list(responses())
    results = [ok for part in (trl, verl, verifiers) for ok in part(rows)]
    sys.exit(not all(results))
