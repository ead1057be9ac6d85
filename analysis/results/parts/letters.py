def reward(prompt, completion, answer, **task):
    """The share of letters in a response: random weights get some of it, and not all the same."""
    return {"letters": sum(c.isalpha() for c in completion) / max(1, len(completion))}
