"""Tasks of texts and photographs."""

import random
import re

import sources
from kit import Data, Prepared, Row, Task, constant, fraction, write_csv
from tasks_python import png

NOVELS = {
    "sensesensibility": "sense_and_sensibility", "prideprejudice": "pride_and_prejudice", "mansfieldpark": "mansfield_park",
    "emma": "emma", "northangerabbey": "northanger_abbey", "persuasion": "persuasion",
}


def austen():
    rows = []
    for dataset, novel in NOVELS.items():
        lines = [next(v for n, v in r.items() if n) for r in sources.from_r("janeaustenr", dataset)]
        # Headings are lines of capitals or begin with a word of capitals and a number.
        lines = [line for line in lines if not re.match(r"(chapter|volume|the end|by jane)\b", line, re.I)]
        for paragraph in "\n".join(lines).split("\n\n"):
            for sentence in re.split(r"(?<=[.!?;])[\"']?\s+", " ".join(paragraph.split())):
                if 12 <= len(sentence.split()) <= 80:
                    rows.append(Row((sentence,), (novel,)))
    return Data(["text"], rows, sorted(NOVELS.values()))


def tate():
    # Prints of one series have the artist, the materials and mostly the year in
    # common: they are on one side.
    rows = sources.from_r("modeldata", "tate_text")
    return Data(["artist", "title", "medium"], [
        Row((r["artist"], r["title"], r["medium"]), (r["year"],), (r["artist"], r["medium"])) for r in rows
    ])


# Photographs and pages under CC0 or in the public domain, by the side that they
# are on: no patch of the test set is cut from a picture of the training set.
TRAIN_PHOTOGRAPHS = ["astronaut.png", "brick.png", "camera.png", "chelsea.png", "clock_motion.png", "gravel.png", "page.png", "rocket.jpg"]
TEST_PHOTOGRAPHS = ["coffee.png", "coins.png", "grass.png", "text.png"]
SIDE, PATCHES = 48, 4  # of a patch in pixels; from a picture


def patches(name):
    from PIL import Image

    path = sources.folder("skimage") / "data" / name
    with Image.open(path) as opened:
        picture = opened.convert("L")
    places = [(x, y) for x in range(0, picture.width - SIDE + 1, SIDE) for y in range(0, picture.height - SIDE + 1, SIDE)]
    places.sort(key=lambda place: fraction("photograph-denoising", name, *place))
    for x, y in places[:PATCHES]:
        pixels = list(picture.crop((x, y, x + SIDE, y + SIDE)).getdata())
        yield [pixels[i : i + SIDE] for i in range(0, len(pixels), SIDE)]


def noisy(pixels, seed):
    """Adds a normal error of one width to all pixels, and turns one in fifty black or white."""
    draw = random.Random(seed)
    width = draw.uniform(10, 40)

    def one(v):
        chance = draw.random()
        if chance < 0.02:
            return 0 if chance < 0.01 else 255
        return min(max(round(draw.gauss(v, width)), 0), 255)

    return [[one(v) for v in line] for line in pixels]


def denoising():
    clean = [(patch, late) for names, late in ((TRAIN_PHOTOGRAPHS, False), (TEST_PHOTOGRAPHS, True)) for n in names for patch in patches(n)]
    clean.sort(key=lambda p: fraction("photograph-denoising", "order", p[0]))
    public, train, test, answers, values = {}, [], [], [], []
    for number, (patch, late) in enumerate(clean):
        public[f"images/{number}.png"] = png(noisy(patch, f"photograph-denoising {number}"))
        if not late:
            public[f"clean/{number}.png"] = png(patch)
            train.append((number, f"images/{number}.png", f"clean/{number}.png"))
            values += [str(v) for line in patch for v in line]
            continue
        for row, line in enumerate(patch):
            for column, v in enumerate(line):
                name = f"{number}_{row}_{column}"
                test.append((name, f"images/{number}.png"))
                answers.append((name, v))
    same = constant("rmse", [values], None)
    public["train.csv"] = write_csv(["id", "file", "clean_file"], train)
    public["test.csv"] = write_csv(["id", "file"], test)
    public["sample_submission.csv"] = write_csv(["id", "value"], [(name, *same) for name, _ in answers])
    return Prepared(public, write_csv(["id", "value"], answers), None)


TASKS = [
    Task(
        "austen-novels", "Which of Jane Austen's novels?", "multi-class-log-loss", ["novel"], "text", ["r-cran-janeaustenr", "r-base-core"],
        "Jane Austen's six novels, from Project Gutenberg; public domain",
        """
Jane Austen wrote six novels. Each row is a sentence, or a part of one, from one of them. Give the probability of each novel.
""", """
- `id` - the number of the sentence
- `text` - the sentence
- `novel` - where it is from (`train.csv` only)
""", austen, split="test"),
    Task(
        "tate-artworks", "When was the work made?", "median-absolute-error", ["year"], "text", ["r-cran-modeldata", "r-base-core"],
        "metadata of the Tate's collection, CC0",
        """
A museum of art lists what it owns. For works made since 1990, predict the year from the artist, the title and the materials. Works of
one artist in the same materials are all in one of the two sets.
""", """
- `id` - the number of the row
- `artist` - name, the last name first
- `title` - title of the work
- `medium` - of what it is made
- `year` - when it was made (`train.csv` only)
""", tate),
    Task(
        "photograph-denoising", "Photographs without the noise", "rmse", ["value"], "image", ["python3-skimage", "python3-pil"],
        "photographs and scans of scikit-image's test pictures, each CC0 or in the public domain",
        """
Noise was added to small pieces of photographs and scanned pages: an error on each pixel, of a width that differs from piece to piece,
and here and there a pixel that is black or white. Restore the pieces. The answers are the values of all pixels of the test pieces,
whose pictures are not those of the training set.
""", """
`train.csv` has one row for a piece:

- `id` - the number of the piece
- `file` - the piece with noise: a greyscale PNG of 48 by 48 pixels, 0 (black) to 255 (white)
- `clean_file` - the piece without noise

`test.csv` has one row for a pixel:

- `id` - the number of the piece, the row and the column of the pixel, each from 0: `image_row_column`
- `file` - the piece with noise that the pixel is in

A submission's `value` is the brightness of the pixel without noise.
""", denoising, split="test"),
]
