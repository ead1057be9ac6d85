"""An environment of one's own, of several turns: find a digit by asking for it.

The policy says a digit and is told whether the one that is looked for is higher or
lower, until it has found it. The fewer guesses, the more it is worth. Run by
jobs/own-environment.yaml.
"""

import itertools
import random

GUESSES = 4


class Episode:
    """One attempt. It follows from the task, the seed and the messages alone: Lathe plays
    it again to judge it, and where a program was lost.
    """

    def __init__(self, digit):
        self.digit, self.guesses, self.found = digit, 0, False

    def next(self, message):
        """What the policy is told; None at the end."""
        self.guesses += 1
        guess = message.strip()
        self.found = guess == self.digit
        if self.found or self.guesses == GUESSES or not guess.isdigit():
            return None
        return "higher" if guess < self.digit else "lower"

    def reward(self):
        worth = 1 - (self.guesses - 1) / GUESSES if self.found else 0
        return {"reward": worth, "score": worth, "outcome": "ok" if self.found else "wrong"}


class Guess:
    def tasks(self, split, seed):
        """Tasks of the split "train" or "test", of which the seed is the same."""
        all = [("".join(five), one) for five in itertools.combinations("0123456789", 5) for one in five]
        random.Random(seed).shuffle(all)
        for digits, one in all[:200] if split == "train" else all[200:240]:
            # A warm start learns from responses: here a first guess.
            yield {"prompt": digits + "?", "answer": one, "response": digits[2]}

    def begin(self, task, messages, seed):
        return Episode(task["answer"])


environment = Guess()
