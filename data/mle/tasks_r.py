"""Tasks of classes from the data sets of R packages."""

import sources
from kit import Data, Row, Task


def table(package, dataset, target, drop=(), classes=None):
    """A data set whose target is a column of labels."""
    rows = sources.from_r(package, dataset)
    names = [n for n in rows[0] if n not in ("", target, *drop)]
    classes = classes or sorted({r[target] for r in rows})
    return Data([n.replace(".", "_") for n in names], [Row(tuple(r[n] for n in names), (r[target],)) for r in rows], classes)


def binary(package, dataset, target, one):
    """A data set whose target is 1 for the label one, else 0."""
    rows = sources.from_r(package, dataset)
    names = [n for n in rows[0] if n not in ("", target)]
    return Data(names, [Row(tuple(r[n] for n in names), (str(int(r[target] == one)),)) for r in rows])


def splice():
    rows = sources.from_r("mlbench", "DNA")
    bases = {("1", "0", "0"): "A", ("0", "1", "0"): "C", ("0", "0", "1"): "G", ("0", "0", "0"): "T"}
    classes = {"ei": "exon_intron", "ie": "intron_exon", "n": "neither"}
    made = []
    for r in rows:
        bits = [r[f"V{i}"] for i in range(1, 181)]
        sequence = "".join(bases[tuple(bits[i : i + 3])] for i in range(0, 180, 3))
        made.append(Row((sequence,), (classes[r["Class"]],)))
    return Data(["sequence"], made, sorted(classes.values()))


def titanic():
    rows = sources.from_r("carData", "TitanicSurvival")
    return Data(
        ["name", "sex", "age", "passenger_class"],
        [Row((r[""], r["sex"], r["age"], r["passengerClass"]), (str(int(r["survived"] == "yes")),)) for r in rows],
        ["0", "1"],
    )


def storms():
    rows = sources.from_r("dplyr", "storms")
    names = ["name", "year", "month", "day", "hour", "lat", "long", "pressure"]
    classes = sorted({r["status"] for r in rows})
    # All reports of a storm are on one side, or left out.
    made = [Row(tuple(r[n] for n in names), (r["status"],), (r["name"], r["year"])) for r in rows]
    return Data(names, made, classes)


ROLES = ["Data_scientist", "Database_administrator", "DevOps", "Embedded_developer", "Graphic_designer", "Mobile_developer"]


def roles():
    rows = sources.from_r("modeldata", "stackoverflow")
    names = [n for n in rows[0] if n and n not in ROLES]
    return Data(names, [Row(tuple(r[n] for n in names), tuple(r[n] for n in ROLES)) for r in rows])


MLBENCH = ["r-cran-mlbench", "r-base-core"]

TASKS = [
    Task(
        "letter-recognition", "Capital letters from their shape", "balanced-accuracy", ["letter"], "tabular", MLBENCH,
        "Letter Recognition, UCI Machine Learning Repository, CC BY 4.0",
        """
Capital letters in twenty typefaces were distorted at random and reduced to sixteen whole numbers each, from 0 to 15. Say which
letter of the alphabet each row was.
""", """
- `id` - the number of the row
- `x_box`, `y_box`, `width`, `high` - place and size of the smallest box around the letter
- `onpix` - number of black pixels
- `x_bar`, `y_bar` - mean place of the black pixels in the box
- `x2bar`, `y2bar`, `xybar`, `x2ybr`, `xy2br` - moments of their places
- `x_ege`, `y_ege` - mean number of edges from left to right, and from bottom to top
- `xegvy`, `yegvx` - correlation of those with y, and with x
- `letter` - the letter, A to Z (`train.csv` only)
""", lambda: table("mlbench", "LetterRecognition", "lettr")),
    Task(
        "satellite-land-cover", "Land cover from a satellite", "f1-weighted", ["cover"], "tabular", MLBENCH,
        "Statlog (Landsat Satellite), UCI Machine Learning Repository, CC BY 4.0",
        """
A satellite took one scene in four bands of light. Each row is a square of three by three pixels of it, and somebody went there to
see what covers the ground in the middle. Predict that.
""", """
- `id` - the number of the row
- `x_1` to `x_36` - brightness, 0 to 255: the four bands of the first pixel, then those of the next, line by line
- `cover` - what covers the middle pixel (`train.csv` only)
""", lambda: table("mlbench", "Satellite", "classes")),
    Task(
        "splice-junctions", "Splice junctions in DNA", "multi-class-auc-ovr", ["junction"], "text", MLBENCH,
        "Molecular Biology (Splice-junction Gene Sequences), UCI Machine Learning Repository, CC BY 4.0; the Statlog version",
        """
Genes of primates consist of exons, which are kept when a protein is made, and introns, which are cut out. Each row is a stretch of
sixty bases. Say how likely it is that its middle is the border from an exon to an intron, from an intron to an exon, or neither.
""", """
- `id` - the number of the sequence
- `sequence` - sixty letters of A, C, G and T; a border would lie between the 30th and the 31st
- `junction` - what is in the middle (`train.csv` only)
""", splice, split="test"),
    Task(
        "soybean-diseases", "Diseases of soybeans", "map@3", ["disease"], "tabular", MLBENCH,
        "Soybean (Large), UCI Machine Learning Repository, CC BY 4.0",
        """
Sick soybean plants were described by 35 properties, many of which are missing for some plants. Name up to three diseases for each
plant, the likeliest first. Some of the nineteen diseases are rare.
""", """
- `id` - the number of the plant
- `date` - month, 0 (April) to 6 (October)
- all other columns - a property, as a number for each of its values; empty where it is not known
- `disease` - the disease (`train.csv` only)
""", lambda: table("mlbench", "Soybean", "Class")),
    Task(
        "spam-mail", "Unwanted mail", "log-loss", ["spam"], "tabular", ["r-cran-kernlab", "r-base-core"],
        "Spambase, UCI Machine Learning Repository, CC BY 4.0",
        """
A firm gathered the mail of one of its people and mail that was reported as unwanted, and counted words in it. From the counts, say
how likely each message is to be unwanted.
""", """
- `id` - the number of the message
- `make` to `conference` - how often the word occurs, in per cent of all words; `num` stands before a number
- `charSemicolon` to `charHash` - how often the character occurs, in per cent of all characters
- `capitalAve`, `capitalLong`, `capitalTotal` - mean, longest and total length of runs of capital letters
- `spam` - 1 for unwanted mail (`train.csv` only)
""", lambda: binary("kernlab", "spam", "type", "spam")),
    Task(
        "mortgage-denials", "Denied mortgages", "f1", ["deny"], "tabular", ["r-cran-aer", "r-base-core"],
        "Home Mortgage Disclosure Act data of Boston, 1990 (Munnell and others, 1996; Stock and Watson, 2007); package GPL (>= 2)",
        """
Around 1990, a bank of the United States asked lenders in Boston about applications for mortgages, to study whether people were
treated alike. Say which applications were denied. About one in eight was.
""", """
- `id` - the number of the application
- `pirat`, `hirat` - all payments, and those for housing, over income
- `lvrat` - loan over value
- `chist`, `mhist` - credit history of consumer payments (1 to 6) and of mortgage payments (1 to 4); higher is worse
- `phist` - a public record of bad credit
- `unemp` - unemployment in the applicant's industry, in per cent
- `selfemp`, `insurance`, `condomin`, `afam`, `single`, `hschool` - self-employed; mortgage insurance was denied; the unit is a
  condominium; African-American; single; has finished high school
- `deny` - 1 if the mortgage was denied (`train.csv` only)
""", lambda: binary("AER", "HMDA", "deny", "yes")),
    Task(
        "titanic-survival", "Who survived the Titanic?", "accuracy", ["survived"], "tabular", ["r-cran-cardata", "r-base-core"],
        "a part of the data set titanic3, compiled by Thomas Cason; package GPL (>= 2)",
        """
The Titanic sank in 1912, and most of the people on board died. Say which passengers survived.
""", """
- `id` - the number of the passenger
- `name` - the name, cut after 31 letters
- `sex` - female or male
- `age` - in years, with fractions for the youngest; empty where it is not known
- `passenger_class` - 1st, 2nd or 3rd
- `survived` - 1 for those who did (`train.csv` only)
""", titanic),
    Task(
        "storm-status", "From depression to hurricane", "multi-class-log-loss", ["status"], "tabular", ["r-cran-dplyr", "r-base-core"],
        "NOAA Atlantic hurricane database (HURDAT2), 1975-2020; public domain",
        """
Every six hours, the place of each storm over the Atlantic is noted, with the pressure in its centre and what the storm is called
at that time: a tropical depression, a tropical storm or a hurricane. Give the probability of each. The storms of the test set are
not in the training set.
""", """
- `id` - the number of the report
- `name` - name of the storm; names come again in other years
- `year`, `month`, `day`, `hour` - time of the report, UTC
- `lat`, `long` - where the centre is, in degrees
- `pressure` - in the centre, in millibars
- `status` - what the storm is called (`train.csv` only)
""", storms),
    Task(
        "developer-roles", "What kind of developer?", "mean-column-wise-auc", ROLES, "tabular", ["r-cran-modeldata", "r-base-core"],
        "Stack Overflow Annual Developer Survey 2017 (a part), ODbL",
        """
Developers in five countries answered a survey about their work. Each could name several roles, such as web developer or data
scientist. From the other answers, and seven of the roles, say how likely each of six more roles is.
""", """
- `id` - the number of the respondent
- `Country` - one of five
- `Salary` - yearly, in US dollars
- `YearsCodedJob` - years of coding for a living
- `OpenSource`, `Hobby` - 1 for those who contribute to open source, and who code as a hobby
- `CompanySizeNumber` - employees of the company, in steps
- `Remote` - whether the respondent works remotely
- `CareerSatisfaction` - 0 to 10
- `Desktop_applications_developer`, `Developer_with_stats_math_background`, `Graphics_programming`, `Machine_learning_specialist`,
  `Quality_assurance_engineer`, `Systems_administrator`, `Web_developer` - 1 for those who named the role
- `Data_scientist`, `Database_administrator`, `DevOps`, `Embedded_developer`, `Graphic_designer`, `Mobile_developer` - likewise
  (`train.csv` only)
""", roles),
]
