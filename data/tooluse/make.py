"""Writes a small set of tool-use tasks in BFCL's form, for tests and for
policies that are too small for BFCL itself. The tasks and the documentation
are ours; the functions behave as those of BFCL's API classes do.

    python3 data/tooluse/make.py                    writes data/tooluse/small anew
    python3 data/tooluse/make.py OUT --draw 240     writes so many tasks, drawn at random, into OUT
"""

import argparse
import json
import pathlib
import random

TASKS = "BFCL_v4_multi_turn_base.json"


def function(name, description, /, optional=(), **parameters):
    properties = {}
    for parameter, (kind, meaning) in parameters.items():
        properties[parameter] = {"type": kind, "description": meaning}
    required = [p for p in parameters if p not in optional]
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "dict", "properties": properties, "required": required},
    }


NUMBER, TEXT, WHOLE = "float", "string", "integer"
FUNCTIONS = {
    "math_api.json": [
        function("add", "Adds two numbers.", a=(NUMBER, "a number"), b=(NUMBER, "another one")),
        function("subtract", "Takes b from a.", a=(NUMBER, "a number"), b=(NUMBER, "what is taken away")),
        function("multiply", "Multiplies two numbers.", a=(NUMBER, "a number"), b=(NUMBER, "another one")),
    ],
    "gorilla_file_system.json": [
        function("mkdir", "Makes a folder in the present one.", dir_name=(TEXT, "its name")),
        function("touch", "Makes an empty file in the present folder.", file_name=(TEXT, "its name")),
        function("cd", "Goes into a folder.", folder=(TEXT, "its name, or .. for the one above")),
        function("cat", "Shows a file.", file_name=(TEXT, "its name")),
        function(
            "echo", "Writes a text into a file, or shows it.", optional=["file_name"],
            content=(TEXT, "the text"), file_name=(TEXT, "the file's name"),
        ),
        function(
            "wc", "Counts in a file.", optional=["mode"],
            file_name=(TEXT, "the file's name"), mode=(TEXT, "l for lines, w for words, c for characters"),
        ),
    ],
    "ticket_api.json": [
        function("ticket_login", "Logs in.", username=(TEXT, "who"), password=(TEXT, "the password")),
        function(
            "create_ticket", "Opens a ticket; needs a login.", optional=["description", "priority"],
            title=(TEXT, "its title"), description=(TEXT, "what it is about"), priority=(WHOLE, "from 1 to 5"),
        ),
        function("get_ticket", "Shows a ticket.", ticket_id=(WHOLE, "its number")),
        function("close_ticket", "Closes a ticket; needs a login.", ticket_id=(WHOLE, "its number")),
    ],
}


def folder(**contents):
    return {"type": "directory", "contents": contents}


def file(content):
    return {"type": "file", "content": content}


def tasks():
    for i, (a, b, c) in enumerate([(2, 3, 7), (4, 4, 9), (8, 1, 5), (6, 7, 2)]):
        yield f"sum_{i}", {"MathAPI": {}}, [(f"Add {a} and {b}.", [f"add({a}, {b})"])]
        yield f"sums_{i}", {"MathAPI": {}}, [
            (f"Multiply {a} by {c}.", [f"multiply(a={a}, b={c})"]),
            (f"Take {b} from {c}.", [f"subtract(a={c}, b={b})"]),
        ]
    for name in ["notes", "data", "home", "work"]:
        tree = {"GorillaFileSystem": {"root": {"box": folder(**{"old.txt": file("one two three")})}}}
        yield f"folder_{name}", tree, [(f"Make the folder {name}.", [f"mkdir(dir_name='{name}')"])]
        yield f"file_{name}", tree, [
            (f"Make the file {name}.txt.", [f"touch(file_name='{name}.txt')"]),
            (f"Write hello into {name}.txt.", [f"echo(content='hello', file_name='{name}.txt')"]),
            (f"Show {name}.txt.", [f"cat(file_name='{name}.txt')"]),
        ]
    for i, title in enumerate(["printer", "door", "lamp", "phone"]):
        config = {"TicketAPI": {"ticket_queue": [], "ticket_counter": i + 1, "current_user": None}}
        yield f"ticket_{title}", config, [
            (
                f"Log in as ann with the password x, and open the ticket {title}.",
                ["ticket_login('ann', 'x')", f"create_ticket(title='{title}')"],
            ),
            ("Thank you.", []),
            ("Close it.", [f"close_ticket(ticket_id={i + 1})"]),
        ]
        counted = "abcd"[i] + ".txt"
        both = {"GorillaFileSystem": {"root": {"box": folder(**{counted: file("w " * (i + 2))})}}, "MathAPI": {}}
        yield f"count_{i}", both, [
            (f"Count the words of {counted}.", [f"wc(file_name='{counted}', mode='w')"]),
            (f"Add {i} to that number.", [f"add({i + 2}, {i})"]),
        ]


# A small policy learns to copy words that it has seen before.
WORDS = "ant bag cup dog egg fig hat ink jam key lid map nut owl pan rug".split()


def drawn(count):
    """Draws tasks whose first request takes one to three calls, always the same ones."""
    draw = random.Random(1)
    seen = set()

    while len(seen) < count:
        kind = ["sum", "folder", "ticket", "count"][len(seen) % 4]
        a, b, c = (draw.randint(2, 30) for _ in range(3))
        names = draw.sample(WORDS, 3)
        wanted = draw.randint(1, 3)
        if kind == "sum":
            asked = [(f"add {a} and {b}", f"add({a}, {b})"), (f"multiply {b} by {c}", f"multiply(a={b}, b={c})"), (f"take {a} from {c}", f"subtract(a={c}, b={a})")]
            turns, config = [draw.sample(asked, wanted)], {"MathAPI": {}}
        elif kind == "folder":
            asked = [(f"make the folder {names[0]}", f"mkdir(dir_name='{names[0]}')"), (f"make the file {names[1]}.txt", f"touch(file_name='{names[1]}.txt')"),
                     (f"write {names[2]} into {names[1]}.txt", f"echo(content='{names[2]}', file_name='{names[1]}.txt')")]
            turns, config = [asked[:wanted]], {"GorillaFileSystem": {"root": {"box": folder(**{"old.txt": file("one two three")})}}}
        elif kind == "ticket":
            asked = [(f"log in as {names[0]} with the password {names[1]}", f"ticket_login('{names[0]}', '{names[1]}')"), (f"open the ticket {names[2]}", f"create_ticket(title='{names[2]}')"),
                     (f"close it", f"close_ticket(ticket_id={a})")]
            turns, config = [asked[:wanted]], {"TicketAPI": {"ticket_queue": [], "ticket_counter": a, "current_user": None}}
        else:
            words = a % 9 + 1
            asked = [(f"count the words of {names[0]}.txt", f"wc(file_name='{names[0]}.txt', mode='w')"), (f"add {b} to that number", f"add({words}, {b})")]
            turns, config = [asked[: min(wanted, 2)]], {"GorillaFileSystem": {"root": {"box": folder(**{names[0] + ".txt": file(" ".join([names[1]] * words))})}}, "MathAPI": {}}
        said = [", then ".join(text for text, _ in turn) for turn in turns]
        if said[0] in seen:
            continue
        seen.add(said[0])
        yield f"{kind}_{len(seen)}", config, [(text[0].upper() + text[1:] + ".", [call for _, call in turn]) for text, turn in zip(said, turns)]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")


def save(folder, tasks):
    questions, answers = [], []
    for task, config, turns in tasks:
        questions.append({
            "id": task,
            "question": [[{"role": "user", "content": said}] for said, _ in turns],
            "initial_config": config,
            "involved_classes": list(config),
            "excluded_function": ["subtract"] if not given.draw and task.startswith("sum_") else [],
        })
        answers.append({"id": task, "ground_truth": [calls for _, calls in turns]})
    write(folder / TASKS, questions)
    write(folder / "possible_answer" / TASKS, answers)
    for name, functions in FUNCTIONS.items():
        write(folder / "multi_turn_func_doc" / name, functions)


options = argparse.ArgumentParser()
options.add_argument("out", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent / "small")
options.add_argument("--draw", type=int, help="how many tasks to draw; without it those of data/tooluse/small")
given = options.parse_args()
save(given.out, drawn(given.draw) if given.draw else tasks())
