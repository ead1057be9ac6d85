"""Environments of the package verifiers for golden.py: single turn, tools, and its own
integration of reasoning-gym."""

import verifiers as vf
from datasets import Dataset


def letters():
    """How many letters of the answer are in their place."""
    rows = [{"question": f"Say {w} backwards.", "answer": w[::-1]} for w in ("abc", "house", "tree", "lathe", "level")]
    parser = vf.XMLParser(["think", "answer"], answer_field="answer")

    def places(completion, answer):
        said = parser.parse_answer(completion) or ""
        return sum(a == b for a, b in zip(said, answer)) / max(len(said), len(answer))

    rubric = vf.Rubric(funcs=[places, parser.get_format_reward_func()], weights=[1.0, 0.2], parser=parser)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows * 2), eval_dataset=Dataset.from_list(rows), parser=parser, rubric=rubric)


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: a number
        b: another
    """
    return a + b


def sums():
    """Sums, which a tool works out."""
    rows = [{"question": f"{a}+{b}?", "answer": str(a + b)} for a in range(5) for b in range(2)]

    def right(completion, answer):
        return float(answer in completion[-1]["content"])

    return vf.ToolEnv(tools=[add], max_turns=4, dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))


def gym():
    from verifiers.envs.integrations.reasoninggym_env import ReasoningGymEnv

    return ReasoningGymEnv("leg_counting", num_train_examples=20, num_eval_examples=5, seed=7)
