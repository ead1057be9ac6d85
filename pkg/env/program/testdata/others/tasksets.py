"""A taskset of verifiers.v1 for others_test.go: words backwards."""

import verifiers.v1 as vf

__all__ = ["Backwards"]


class WordData(vf.TaskData):
    answer: str


class WordTask(vf.Task[WordData]):
    @vf.reward(weight=2.0)
    async def right(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.metric
    async def letters(self, trace) -> float:
        return len(trace.last_reply)


class Backwards(vf.Taskset[WordTask, vf.TasksetConfig]):
    def load(self):
        for word in "abc house tree lathe level stone river cloud paper glass table chair door roof wall floor lamp clock book plant".split():
            yield WordTask(WordData(prompt=f"Say {word} backwards.", system_prompt="Be brief.", answer=word[::-1]), self.config.task)
