"""A reward of one's own: the word backwards. Run by jobs/own-reward.yaml."""


def reward(prompt, completion, answer, **task):
    """Called for each response; task has the other columns of the problem's line.

    What comes back is a number, or a dict of parts that are summed up.
    """
    said = completion.strip()
    places = max(len(said), len(answer))
    right = sum(a == b for a, b in zip(said, answer))
    return {
        "letters": right / places,
        # Texts are kept with the verdict; outcome says whether it can be judged.
        "outcome": "ok" if said == answer else "wrong" if said else "invalid",
        "extracted": said,
        "feedback": f"{right} of {places} letters are in their place",
    }
