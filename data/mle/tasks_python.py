"""Tasks from the data sets of Python packages."""

import struct
import zlib

import sources
from kit import Data, Row, Task

SKLEARN = ["python3-sklearn"]
STATSMODELS = ["python3-statsmodels"]


def png(pixels):
    """A greyscale PNG file of rows of whole numbers, 0 to 255."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(line) for line in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


def texts(values):
    return tuple(repr(float(v)) for v in values)


def digits():
    from sklearn.datasets import load_digits

    d = load_digits()
    rows = [
        Row((), (str(label),), image=png([[int(v) * 15 for v in line] for line in image]))
        for image, label in zip(d.images, d.target)
    ]
    return Data([], rows, [str(c) for c in range(10)])


def breast_cancer():
    from sklearn.datasets import load_breast_cancer

    d = load_breast_cancer()
    names = [name.replace(" ", "_") for name in d.feature_names]
    return Data(names, [Row(texts(x), (str(1 - y),)) for x, y in zip(d.data, d.target)])


def wine():
    from sklearn.datasets import load_wine

    d = load_wine()
    names = [name.replace("/", "_") for name in d.feature_names]
    classes = ["cultivar_1", "cultivar_2", "cultivar_3"]
    return Data(names, [Row(texts(x), (classes[y],)) for x, y in zip(d.data, d.target)], classes)


def diabetes():
    from sklearn.datasets import load_diabetes

    d = load_diabetes(scaled=False)
    names = ["age", "sex", "bmi", "blood_pressure", "s1", "s2", "s3", "s4", "s5", "s6"]
    return Data(names, [Row(texts(x), (number(y),)) for x, y in zip(d.data, d.target)])


def number(y):
    return f"{float(y):g}"


def randhie():
    table = sources.table(sources.folder("statsmodels") / "datasets/randhie/randhie.csv")
    names = [name for name in table[0] if name != "mdvis"]
    return Data(names, [Row(tuple(r[n] for n in names), (r["mdvis"],)) for r in table])


def anes96():
    table = sources.table(sources.folder("statsmodels") / "datasets/anes96/anes96.csv", "\t")
    table = [{name.strip("'"): cell for name, cell in r.items()} for r in table]
    names = [name for name in table[0] if name != "PID"]
    return Data(names, [Row(tuple(r[n] for n in names), (r["PID"],)) for r in table])


def co2():
    table = sources.table(sources.folder("statsmodels") / "datasets/co2/co2.csv")
    weeks = [(f"{r['date'][:4]}-{r['date'][4:6]}-{r['date'][6:]}", r["co2"]) for r in table if r["co2"].strip()]
    known = round(len(weeks) * 0.85)
    return Data([], [Row((), (value,), id=day, late=i >= known) for i, (day, value) in enumerate(weeks)])


def seattle():
    table = sources.table(sources.folder("vega_datasets") / "_data/seattle-weather.csv")
    names = [name for name in table[0] if name != "weather"]
    classes = sorted({r["weather"] for r in table})
    return Data(names, [Row(tuple(r[n].replace("/", "-") for n in names), (r["weather"],)) for r in table], classes)


TASKS = [
    Task(
        "handwritten-digits", "Handwritten digits", "accuracy", ["label"], "image", SKLEARN,
        "handwritten digits of the UCI Machine Learning Repository (Optical Recognition of Handwritten Digits), CC BY 4.0",
        """
Forms filled in by 43 people were scanned, and the digits that they wrote were cut out and reduced to small grey images.
Say which digit each image shows.
""", """
- `id` - the number of the image
- `file` - its file: a greyscale PNG of 8 by 8 pixels; 0 is no ink, and the darkest ink is 240
- `label` - the digit, 0 to 9 (`train.csv` only)
""", digits),
    Task(
        "breast-mass-malignancy", "Malignant or benign breast masses", "auc-roc", ["malignant"], "tabular", SKLEARN,
        "Breast Cancer Wisconsin (Diagnostic), UCI Machine Learning Repository, CC BY 4.0",
        """
A fine needle takes cells from a breast mass, and a program traces the outlines of their nuclei in a digitised picture.
From measurements of the nuclei, say how likely the mass is to be malignant.
""", """
- `id` - the number of the row
- `mean_*`, `*_error`, `worst_*` - ten measurements of the nuclei (radius, texture, perimeter, area, smoothness, compactness,
  concavity, concave points, symmetry, fractal dimension), each as the mean over the nuclei of the picture, as the standard
  error of it, and as the mean of the three largest
- `malignant` - 1 for malignant, 0 for benign (`train.csv` only)
""", breast_cancer),
    Task(
        "wine-cultivars", "Which grape made this wine?", "multi-class-log-loss", ["cultivar"], "tabular", SKLEARN,
        "Wine, UCI Machine Learning Repository, CC BY 4.0",
        """
Wines of one region of Italy, made from three cultivars of grape, were analysed in a laboratory. Give, for each wine, the
probability of each cultivar. The data set is small: there are fewer than two hundred wines.
""", """
- `id` - the number of the wine
- `alcohol`, `malic_acid`, `ash`, `alcalinity_of_ash`, `magnesium`, `total_phenols`, `flavanoids`, `nonflavanoid_phenols`,
  `proanthocyanins`, `color_intensity`, `hue`, `od280_od315_of_diluted_wines`, `proline` - what the analysis found
- `cultivar` - the cultivar (`train.csv` only)
""", wine),
    Task(
        "diabetes-progression", "Progression of diabetes", "r2", ["progression"], "tabular", SKLEARN,
        "Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression (2004); shipped with scikit-learn, BSD-3-Clause",
        """
For some hundreds of diabetes patients, ten measurements were taken at a first visit, and a year later a number was put on how
far the disease had progressed. Predict that number.
""", """
- `id` - the number of the patient
- `age` (years), `sex` (1 or 2), `bmi` (body mass index), `blood_pressure` (mean arterial pressure)
- `s1` to `s6` - measurements of blood serum
- `progression` - the progression after a year (`train.csv` only)
""", diabetes),
    Task(
        "outpatient-visits", "Visits to the doctor", "poisson-deviance", ["visits"], "tabular", STATSMODELS,
        "RAND Health Insurance Experiment, as used by Cameron and Trivedi (2005); public domain by the package's note",
        """
A large experiment gave families health insurance on different terms and counted how often each person saw a doctor in a year.
Predict the expected number of visits of a person in a year from the terms and the person's health.
""", """
- `id` - the number of the row: one person in one year
- `lncoins` - log(1 + the share of the cost that the patient pays, in per cent)
- `idp` - 1 if the plan has an individual deductible
- `lpi` - log of the yearly participation payment (at least 1)
- `fmde` - log of the largest expenditure over the share, 0 with an individual deductible
- `physlm` - 1 for a physical limitation
- `disea` - an index of chronic diseases
- `hlthg`, `hlthf`, `hlthp` - 1 if the person calls their health good, fair, poor; all 0 is excellent
- `visits` - the number of visits in the year (`train.csv` only)

Where a limitation was not known, `physlm` holds a fraction.
""", randhie),
    Task(
        "party-identification", "Party identification of voters", "quadratic-weighted-kappa", ["PID"], "tabular", STATSMODELS,
        "American National Election Studies 1996 (a subset); public domain by the package's note",
        """
Before an election in the United States in 1996, voters were asked about themselves, about how they place the candidates and
themselves between liberal and conservative, and whom they mean to vote for. Predict where they place themselves between the two
parties, a rating from 0 (strong Democrat) to 6 (strong Republican).
""", """
- `id` - the number of the respondent
- `popul` - population of the place, in thousands
- `TVnews` - days a week on which the respondent watches the news
- `selfLR`, `ClinLR`, `DoleLR` - where the respondent puts themselves, Clinton and Dole, from 1 (extremely liberal) to 7 (extremely
  conservative)
- `age` - in years
- `educ` - education, 1 (up to 8 grades) to 7 (doctorate)
- `income` - household income, in 24 steps
- `vote` - expected vote: 0 Clinton, 1 Dole
- `PID` - the rating (`train.csv` only)
""", anes96, split="test"),
    Task(
        "mauna-loa-co2", "Carbon dioxide above Mauna Loa", "mae", ["co2"], "series", STATSMODELS,
        "Keeling and Whorf, Atmospheric CO2 concentrations at Mauna Loa, Carbon Dioxide Information Analysis Center; public domain by the package's note",
        """
An observatory on Hawaii has measured the carbon dioxide in the air since 1958. The training set holds the weekly means of the
first decades. Forecast those of the weeks after its end.
""", """
- `date` - the last day of the week, YYYY-MM-DD; both files are in the order of time, and weeks without a measurement are left out
- `co2` - the weekly mean, in parts per million by volume (`train.csv` only)
""", co2, split="test", id_column="date"),
    Task(
        "seattle-weather", "The weather of the day", "f1-macro", ["weather"], "tabular", ["python3-vega-datasets"],
        "daily weather of Seattle 2012-2015, from the NOAA National Climatic Data Center; public domain",
        """
A day's weather in Seattle was given one of five names. From what the instruments measured that day, say which. The classes are
very uneven, and each counts the same in the score.
""", """
- `id` - the number of the day
- `date` - the date, YYYY-MM-DD
- `precipitation` - in mm
- `temp_max`, `temp_min` - in degrees Celsius
- `wind` - mean wind speed, in m/s
- `weather` - the name (`train.csv` only)
""", seattle),
]
