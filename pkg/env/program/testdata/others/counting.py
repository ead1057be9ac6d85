"""An environment of openenv for others_test.go: guess a digit, which is that of the seed."""

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    digit: str


class Said(Observation):
    text: str = ""


class environment(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs) -> Said:
        self.secret, self.tries = seed % 10, 0
        return Said(text="Which digit?")

    def step(self, action: Guess, **kwargs) -> Said:
        self.tries += 1
        right = action.digit == str(self.secret)
        return Said(text="right" if right else "no", done=right or self.tries == 3, reward=1.0 if right else -0.25)

    @property
    def state(self) -> State:
        return State(step_count=self.tries)
