"""Makes a reward or an environment in Python speak Lathe's protocol (data/README.md).

    python3 lathe_env.py [--style STYLE] [--weights 1,0.5] [--tasks N] WHAT [WHAT ...]

WHAT is FILE.py, FILE.py:NAME, MODULE:NAME or reasoning_gym:DATASET; without a name the first of
reward, reward_funcs, compute_score, load_environment, load_taskset, load_dataset, environment, or the
Taskset that __all__ names. The style is told from what is found, or said:

  plain      reward(prompt, completion, answer, **task) -> float, bool, None (invalid) or a dict
             of parts, in which reward, score, outcome, feedback, extracted may be too
  trl        reward_funcs(prompts, completions, **columns) -> list; several, weighted
  verl       compute_score(data_source, solution_str, ground_truth, extra_info)
  verifiers  load_environment() of the package verifiers, 0.1
  taskset    a Taskset of verifiers.v1, 0.4: one answer, scored by the rewards of its task on a trace
  gym        load_dataset(split, seed, count) of reasoning-gym, 0.1: an answer in <answer> tags, or all of it
  openenv    an Environment of openenv, 0.10, run in this process
  episodes   a class: tasks(split, seed), begin(task, messages, seed) -> an episode: next, reward

--tasks is how many tasks to train on are taken or made, 1000, where others would have no end; a quarter
as many are held out.
"""

import asyncio
import functools
import importlib.util
import inspect
import itertools
import json
import math
import os
import random
import sys
import traceback
import typing

NAMES = ["reward", "reward_funcs", "compute_score", "load_environment", "load_taskset", "load_dataset", "environment"]


def load(what):
    """What a word of the command names, and the weights beside it."""
    path, _, name = what.partition(":")
    if os.path.isfile(path):
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
    elif path.endswith(".py"):
        raise FileNotFoundError(f"there is no file {path} in {os.getcwd()}")
    else:
        module = importlib.import_module(path)
    if path == "reasoning_gym":
        return functools.partial(generated, module, name), None
    tasksets = [known for known in getattr(module, "__all__", []) if hasattr(getattr(module, known), "task_type")]
    found = getattr(module, name or next((known for known in NAMES + tasksets if hasattr(module, known)), " or ".join(NAMES)))
    return found, getattr(module, "reward_weights", None) if isinstance(found, (list, tuple)) else None


def call(function, arguments):
    """Calls a function, plain or async, with those of the arguments that it takes."""
    taken = inspect.signature(function).parameters
    missing = [n for n, p in taken.items() if n not in arguments and p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if missing:
        raise TypeError(f"{getattr(function, '__name__', function)} takes {', '.join(missing)}: there are {', '.join(sorted(arguments))}")
    if not any(p.kind == p.VAR_KEYWORD for p in taken.values()):
        arguments = {name: arguments[name] for name in taken if name in arguments}
    result = function(**arguments)
    return asyncio.run(result) if inspect.isawaitable(result) else result


def generated(reasoning_gym, name, split, seed, count):
    """A data set of reasoning-gym by its name. Its entry i is that of seed + i: the splits have seeds apart."""
    test = split != "train"
    return reasoning_gym.create_dataset(name, size=max(1, count // 4) if test else count, seed=(2 * seed + test) * count)


def style_of(found):
    if hasattr(found, "begin"):
        return "episodes"
    if hasattr(found, "task_type") or getattr(found, "__name__", "") == "load_taskset":
        return "taskset"
    if hasattr(found, "reset") and hasattr(found, "step"):
        return "openenv"
    if isinstance(found, functools.partial) or getattr(found, "__name__", "") == "load_dataset":
        return "gym"
    if hasattr(found, "rubric") or getattr(found, "__name__", "") == "load_environment":
        return "verifiers"
    return "trl" if isinstance(found, (list, tuple)) or "completions" in inspect.signature(found).parameters else "plain"


def number(value, name="reward"):
    if isinstance(value, str) or not hasattr(value, "__float__") or not math.isfinite(float(value)):
        raise ValueError(f"{name} is {value!r}: a number is wanted")
    return float(value)


SAID = ("outcome", "feedback", "extracted", "milestones", "reason")


def verdict(value, others=False):
    """What a reward function returned, as the protocol has it; others may be in it, which nobody reads."""
    if not isinstance(value, dict):
        return {"reward": number(value)} if value is not None else {"reward": 0, "outcome": "invalid", "feedback": "the reward is None"}
    said = {k: value[k] for k in SAID if k in value}
    parts = {k: number(v, k) for k, v in value.items() if isinstance(v, (int, float)) or hasattr(v, "__float__")}
    whole = {k: parts.pop(k) for k in ("reward", "score") if k in parts}
    parts.update(value.get("parts", {}))
    if "turns" in value:
        said["turns"] = [verdict(turn, others) for turn in value["turns"]]
    if not (whole or parts or value.keys() & {"turns", "outcome"}):
        raise ValueError(f"there is no number in {value!r}")
    for k in [] if others else value.keys() - {*SAID, *whole, *parts, "parts", "turns"}:
        if value[k] is not None:
            raise ValueError(f"{k} is {value[k]!r}: a part is a number, and all else is one of {', '.join(SAID)}, parts, turns")
    if len(whole) == 2:
        said["score"] = whole["score"]
    return {**said, "parts": parts, "reward": whole.get("reward", whole.get("score", sum(parts.values())))}


def columns(task):
    """All that is known of a task: its own columns, and what Lathe has read of them."""
    known = {k: v for k, v in task.items() if k not in ("columns", "chat")}
    return {**known, **(task.get("columns") or {}), "answer": task["answer"], "question": task["question"]}


def seed(task):
    random.seed(task["seed"])
    getattr(sys.modules.get("numpy.random"), "seed", id)(task["seed"] % 2**32)


def failure(error):
    """An exception in one line, with its place in the user's code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__ and f.filename[0] != "<"]
    return f"{type(error).__name__}: {error}" + (f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else "")


def attempt(do, item):
    try:
        if "task" in item:
            seed(item["task"])
        return do(item) or {}
    except Exception as error:
        return {"error": failure(error)}


def each(do):
    """Does something with items in turn; an exception is its own item's."""
    return lambda items: [attempt(do, item) for item in items]


class Plain:
    def __init__(self, functions, weights):
        self.functions = [f for found in functions for f in (found if isinstance(found, (list, tuple)) else [found])]
        self.weights = weights or [1.0] * len(self.functions)
        if len(self.weights) != len(self.functions):
            raise ValueError(f"{len(self.functions)} reward functions have {len(self.weights)} weights")
        self.requests = {"score": self.score}
        taken = [p for f in self.functions for p in inspect.signature(f).parameters.values()]
        self.about = {"answer": any(p.name in ("answer", "ground_truth") and p.default is p.empty for p in taken)}

    def known(self, item):
        """The arguments of a reward, by the names of all styles."""
        prompt, completion = item["messages"][: item["own"][0]], item["messages"][item["own"][0] :]
        last, known = item["messages"][item["own"][-1]]["content"], columns(item["task"])
        known.update(messages=item["messages"], finish=item["finish"], solution_str=last, ground_truth=known["answer"])
        known = {"data_source": known["kind"], "extra_info": None, **known}
        if not item["task"]["chat"]:
            prompt, completion = prompt[-1]["content"], last
        return {**known, "prompt": prompt, "prompts": prompt, "completion": last, "completions": completion}

    def score(self, items):
        verl = "solution_str" in inspect.signature(self.functions[0]).parameters  # its dicts have more, for logs
        return [attempt(lambda i: verdict(call(self.functions[0], self.known(i)), verl), item) for item in items]


class TRL(Plain):
    def score(self, items):
        groups = {}  # tasks may have different columns: what shares a call has the same
        for i, item in enumerate(items):
            groups.setdefault((item["task"]["chat"], *sorted(columns(item["task"]))), []).append(i)
        results = {}
        for group in groups.values():
            results.update(zip(group, self.together([items[i] for i in group])))
        return [results[i] for i in range(len(items))]

    def together(self, items):
        rows = [self.known(item) for item in items]
        given = {name: [row[name] for row in rows] for name in rows[0] if name not in ("prompt", "completion")}
        seed(items[0]["task"])
        rewards = {}
        for at, function in enumerate(self.functions):
            name = getattr(function, "__name__", f"reward_{at + 1}")
            name = name if name not in rewards else f"{name}_{at + 1}"
            rewards[name] = call(function, given)
            if not hasattr(rewards[name], "__iter__") or len(said := list(rewards[name])) != len(items):
                return [{"error": f"{name} returned {rewards[name]!r}: a list of {len(items)} is wanted, a reward for each completion"}] * len(items)
            rewards[name] = said
        return [attempt(self.total, dict(zip(rewards, row))) for row in zip(*rewards.values())]

    def total(self, rewards):
        parts = {name: number(value, name) for name, value in rewards.items() if value is not None}
        weights = dict(zip(rewards, self.weights))
        return {"reward": sum(weights[n] * v for n, v in parts.items()), "parts": parts} if parts else verdict(None)


class Episodes:
    def __init__(self, functions, weights):
        self.environment = functions[0]() if callable(functions[0]) else functions[0]
        self.open = {}
        self.requests = {"score": each(self.judge), "begin": each(self.begin), "next": each(self.next), "close": each(self.close)}
        if gives := next((x for x in (self, self.environment) if hasattr(x, "tasks")), None):
            self.requests["tasks"] = gives.tasks

    def start(self, task, messages):
        task = columns(task)
        return call(self.environment.begin, {"task": task, "messages": messages, "seed": task["seed"]})

    def answer(self, episode, message, verdict=None):
        return call(episode.next, {"message": message, "verdict": verdict})

    def begin(self, item):
        self.open[item["episode"]] = self.start(item["task"], item["messages"])

    def next(self, item):
        reply = self.answer(self.open[item["episode"]], item["message"], item.get("verdict"))
        return {"messages": [{"role": "user", "content": reply}] if isinstance(reply, str) else reply} if reply else {}

    def close(self, item):
        self.open.pop(item["episode"], None)

    def judge(self, item):
        """Plays what the policy said again, and asks for the reward."""
        episode = self.start(item["task"], item["messages"][: item["opening"]])
        for message in item["messages"][item["opening"] :]:
            if message["role"] == "assistant":
                self.answer(episode, message["content"])
        return self.reward(episode)

    def reward(self, episode):
        return verdict(call(episode.reward, {}))


class Verifiers(Episodes):
    """An environment of the package verifiers, 0.1, whose episodes are its states."""

    def tasks(self, split, seed):
        e = self.environment
        rows = e.get_dataset() if split == "train" else e.get_eval_dataset() if e.eval_dataset is not None else []
        return [{"kind": row.get("task"), **row, "id": str(row["example_id"]), "prompt": self.prompt(row["prompt"])} for row in map(dict, rows)]

    def prompt(self, messages):
        """A prompt with the tools that the policy may call, in the form of Hermes."""
        tools = getattr(self.environment, "oai_tools", None) or []
        told = 'Call tools by <tool_call>{"name": ..., "arguments": {...}}</tool_call>. Tools:'
        first = [{"role": "system", "content": "\n".join([told, *map(json.dumps, tools)])}] if tools else []
        return first + (messages if isinstance(messages, list) else [{"role": "user", "content": messages}])

    def tool_call(self, i, text):
        try:
            asked = json.loads(text)
            function = {"name": asked["name"], "arguments": json.dumps(asked.get("arguments", {}))}
        except (ValueError, TypeError, KeyError):
            function = {"name": "", "arguments": text}  # the environment says that it cannot be read
        return {"id": f"call_{i}", "type": "function", "function": function}

    def start(self, task, messages):
        task = columns(task)
        row = {"example_id": 0, "task": "default", "prompt": messages, "answer": task["answer"] or ""}
        row.update({k: task[k] for k in ("info", "task", "example_id") if task.get(k) is not None})
        return asyncio.run(self.environment.setup_state(asyncio.run(self.environment.init_state(row, None, ""))))

    def answer(self, episode, message, verdict=None):
        return asyncio.run(self.push(episode, message))

    async def push(self, state, text):
        prompt = state.pop("lathe_prompt", None) or await self.environment.get_prompt_messages(state)
        message = {"role": "assistant", "content": text}
        calls = text.split("<tool_call>")[1:]
        if calls and getattr(self.environment, "oai_tools", None):
            message["tool_calls"] = [self.tool_call(i, c.split("</tool_call>")[0]) for i, c in enumerate(calls)]
        step = dict(prompt=prompt, completion=[message], response=None, tokens=None, reward=None, advantage=None)
        await self.environment.add_trajectory_step(state, {**step, "is_truncated": False, "trajectory_id": state["trajectory_id"], "extras": {}})
        if await self.environment.is_completed(state):
            return None
        state["lathe_prompt"] = await self.environment.get_prompt_messages(state)
        if state.get("final_env_response") is not None or await self.environment.is_completed(state):
            return None
        return [{"role": m["role"], "content": m["content"]} for m in state["lathe_prompt"][len(prompt) + 1 :]]

    def reward(self, episode):
        asyncio.run(self.environment.render_completion(episode))
        asyncio.run(self.environment.rubric.score_rollout(episode, asyncio.Semaphore()))
        return {"reward": number(episode["reward"]), "parts": {k: number(v, k) for k, v in episode["metrics"].items()}}


class Tasksets:
    """Tasks of verifiers.v1, 0.4, whose harness is the policy alone: a task's rewards are given a trace."""

    def __init__(self, functions, weights):
        from verifiers.v1.utils.generic import concrete_type

        self.vf, found = importlib.import_module("verifiers.v1"), functions[0]
        if isinstance(found, type):
            found = functools.partial(found, (concrete_type(found, self.vf.TasksetConfig) or self.vf.TasksetConfig)())
        self.taskset = found() if callable(found) else found
        self.requests = {"tasks": self.tasks, "score": each(self.judge)}
        self.about = {"answer": False}

    @functools.cached_property
    def all(self):
        """Every fifth is held out."""
        found = list(itertools.islice(self.taskset, self.count * 5 // 4))
        kinds = {type(task) for task in found}
        tools = any(kind.toolsets(found[0].config) for kind in kinds) or type(self.taskset).toolsets(self.taskset.config)
        needs = {f.__name__ for task in found for f in task.hooks("reward") if self.needs_runtime(f)}
        if tools or needs or any(kind.NEEDS_CONTAINER for kind in kinds):
            raise ValueError(f"its tasks have tools, a container or rewards that need a runtime ({', '.join(sorted(needs)) or 'none'}): only answers in one message are scored here")
        return found

    @staticmethod
    def needs_runtime(function):
        taken = inspect.signature(function).parameters.get("runtime")
        return taken is not None and taken.default is taken.empty

    def tasks(self, split, seed):
        for i, task in enumerate(self.all):
            if (i % 5 == 4) == (split != "train"):
                answer = str(getattr(task.data, "answer", task.key))  # by which tasks of one prompt differ
                yield {"id": str(i), "index": i, "kind": type(task).__name__, "prompt": self.prompt(task.data), "answer": answer}

    def prompt(self, data):
        said = [{"role": "user", "content": data.prompt}] if isinstance(data.prompt, str) else [{"role": m.role, "content": m.content} for m in data.prompt or []]
        if not said or any(not isinstance(m["content"], str) for m in said):
            raise ValueError(f"task {data.idx} has no prompt of text")
        return ([{"role": "system", "content": data.system_prompt}] if data.system_prompt else []) + said

    def judge(self, item):
        return asyncio.run(self.score(self.all[columns(item["task"])["index"]], item))

    async def score(self, task, item):
        vf, types = self.vf, importlib.import_module("verifiers.v1.types")
        graph, state_cls = importlib.import_module("verifiers.v1.graph"), importlib.import_module("verifiers.v1.state").state_cls
        of = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        trace = vf.Trace(task=of, state=state_cls(type(task))(), agent=vf.AgentInfo(config=vf.AgentConfig()))
        message = {"system": types.SystemMessage, "user": types.UserMessage, "assistant": types.AssistantMessage}
        messages = [message[m["role"]](content=m["content"]) for m in item["messages"]]
        for at in item["own"]:
            finish = "length" if item["finish"] == "length" and at == item["own"][-1] else "stop"
            response = types.Response(id=str(at), created=0, model="policy", message=messages[at], finish_reason=finish)
            graph.prepare_turn(trace, messages[:at]).commit(response)
        trace.stop("agent_completed")
        trace.ok = True
        await task.score(trace)
        parts = {name: reward.value for name, reward in trace.rewards.items() if reward is not None}
        parts.update({name: value for name, value in trace.metrics.items() if value is not None and name not in parts})
        return {"reward": number(trace.reward), "parts": {name: number(value, name) for name, value in parts.items()}}


class Gym:
    """Data sets of reasoning-gym, 0.1. A task is an entry of one by split, seed and index, which its score is asked for."""

    def __init__(self, functions, weights):
        self.make, self.made = functions[0], {}
        self.requests = {"tasks": self.tasks, "score": each(self.judge)}

    def dataset(self, split, seed):
        if (split, seed) not in self.made:
            self.made[split, seed] = call(self.make, {"split": split, "seed": seed, "count": self.count})
        return self.made[split, seed]

    def tasks(self, split, seed):
        for i, entry in enumerate(self.dataset(split, seed)):
            kind = entry.get("metadata", {}).get("source_dataset", "gym")
            answer = entry["answer"] if isinstance(entry["answer"], str) else json.dumps(entry["answer"], default=str)
            task = {"id": f"{split}/{i}", "prompt": entry["question"], "answer": answer, "kind": kind, "entry": [split, seed, i]}
            yield task if entry["answer"] is None else {**task, "response": answer}

    def judge(self, item):
        split, seed, i = columns(item["task"])["entry"]
        dataset, text = self.dataset(split, seed), item["messages"][item["own"][-1]]["content"]
        answer = importlib.import_module("reasoning_gym.utils").extract_answer(text)
        answer = text.strip() if answer is None else answer
        return {"reward": number(dataset.score_answer(answer, dataset[i])), "extracted": answer}


class OpenEnv(Episodes):
    """Environments of openenv, 0.10, each episode in one of its own. A task is a seed of reset."""

    def __init__(self, functions, weights):
        self.make = functions[0] if callable(functions[0]) else lambda: functions[0]
        super().__init__(functions, weights)
        self.about = {"answer": False}
        self.action = typing.get_type_hints(type(self.environment).step).get("action")
        if not hasattr(self.action, "model_fields"):
            given = [typing.get_args(base) for base in getattr(type(self.environment), "__orig_bases__", ())]
            self.action = next((args[0] for args in given if args and hasattr(args[0], "model_fields")), None)
        if self.action is None:
            raise TypeError(f"{type(self.environment).__name__}.step has no type of its action")
        self.fields = {n: f for n, f in self.action.model_fields.items() if n != "metadata"}

    def tasks(self, split, seed):
        count = self.count if split == "train" else max(1, self.count // 4)
        for i in range(count):
            at = 2 * (seed * self.count + i) + (split != "train")
            yield {"id": f"{split}/{i}", "prompt": self.text(self.make().reset(seed=at)), "reset": at, "answer": str(at)}  # by which tasks of one prompt differ

    def text(self, observation):
        """An observation as the policy reads it: its only text, or all fields as JSON."""
        fields = {n: v for n, v in observation.model_dump(mode="json").items() if n not in ("done", "reward", "metadata")}
        return next(iter(fields.values())) if len(fields) == 1 and isinstance(next(iter(fields.values())), str) else json.dumps(fields)

    def start(self, task, messages):
        environment = self.make()
        environment.reset(seed=columns(task)["reset"])
        return {"environment": environment, "rewards": []}

    def asked(self, text):
        """The action of a message: JSON with its fields, or its only field, a text."""
        try:
            given = json.loads(text)
        except ValueError:
            given = None
        if not isinstance(given, dict) and len(self.fields) == 1:
            given = {next(iter(self.fields)): text}
        return self.action.model_validate(given)

    def answer(self, episode, message, verdict=None):
        try:
            action = self.asked(message)
        except ValueError as error:
            return f"This is no action ({', '.join(self.fields)}): {error}"
        observation = episode["environment"].step(action)
        episode["rewards"].append(number(observation.reward or 0))
        return None if observation.done else self.text(observation)

    def reward(self, episode):
        return {"reward": sum(episode["rewards"])}


def answers(request, speaker, name):
    """The lines that answer a request."""
    (verb,) = request.keys() - {"id"}
    requests = speaker.requests
    if verb == "describe":
        return [{"result": {"protocol": 1, "name": name, "does": sorted(requests), **getattr(speaker, "about", {})}}]
    if verb != "tasks":
        return [{"result": requests[verb](request[verb])}]
    tasks = [{"task": task} for task in requests[verb](**request[verb])]
    return [*tasks, {"result": len(tasks)}]


def main(words):
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the code prints is no answer: it goes where errors go, line by line
    sys.stdout.reconfigure(line_buffering=True)
    options = {"--style": None, "--weights": None, "--tasks": None}
    while words and words[0] in options:
        options[words[0]], words = words[1], words[2:]
    styles = {"plain": Plain, "verl": Plain, "trl": TRL, "verifiers": Verifiers, "episodes": Episodes, "taskset": Tasksets, "gym": Gym, "openenv": OpenEnv}
    try:
        found, weights = zip(*map(load, words or sys.exit("lathe_env.py: name your file: FILE.py or FILE.py:NAME")))
        weights = list(map(float, options["--weights"].split(","))) if options["--weights"] else weights[0]
        speaker = styles[options["--style"] or style_of(found[0])](list(found), weights)
        speaker.count = int(options["--tasks"] or 1000)
    except Exception as error:
        traceback.print_exc()
        sys.exit(failure(error))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            lines = [json.dumps({"id": request["id"], **a}, allow_nan=False, default=str) for a in answers(request, speaker, words[0])]
        except Exception as error:
            traceback.print_exc()
            lines = [json.dumps({"id": request["id"], "error": failure(error)})]
        out.write("\n".join(lines) + "\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
