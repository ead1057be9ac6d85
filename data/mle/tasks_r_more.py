"""Tasks of quantities from the data sets of R packages."""

import sources
from kit import Data, Row, Task, fraction

MODELDATA = ["r-cran-modeldata", "r-base-core"]


def table(package, dataset, targets, drop=(), group=None):
    """A data set whose targets are columns of numbers."""
    rows = sources.from_r(package, dataset)
    names = [n for n in rows[0] if n not in ("", *targets, *drop)]
    return Data(names, [Row(tuple(r[n] for n in names), tuple(r[n] for n in targets), group and group(r)) for r in rows])


def concrete():
    # The same mixture was tested at several ages: its rows are on one side.
    return table("modeldata", "concrete", ["compressive_strength"],
                 group=lambda r: tuple(cell for n, cell in r.items() if n not in ("", "age", "compressive_strength")))


def ridership():
    # The stations' columns are riderships of two weeks before, one of them that of
    # this station: the answers of two weeks before, in the test set too. They go.
    rows = sources.from_r("modeldata", "Chicago")
    names = [n for n in rows[0] if n.islower() and n not in ("", "ridership", "date") or n.endswith(("_Home", "_Away"))]
    known = round(len(rows) * 0.85)
    rows.sort(key=lambda r: r["date"])
    return Data(names, [
        Row(tuple(r[n] for n in names), (r["ridership"],), id=r["date"], late=i >= known) for i, r in enumerate(rows)
    ])


def lectures():
    # The ratings of a part of the students, about one in twelve, are all there.
    rows = [r for r in sources.from_r("lme4", "InstEval") if fraction("lecture-ratings", "student", r["s"]) < 0.08]
    names = {"s": "student", "d": "lecturer", "studage": "student_age", "lectage": "lecture_age", "service": "service", "dept": "department"}
    return Data(list(names.values()), [Row(tuple(r[n] for n in names), (r["y"],)) for r in rows])


TASKS = [
    Task(
        "ames-house-prices", "House prices in Ames", "rmsle", ["Sale_Price"], "tabular", MODELDATA,
        "De Cock, Ames, Iowa: Alternative to the Boston Housing Data (2011); package MIT",
        """
The assessor of Ames, Iowa, describes the houses that were sold from 2006 to 2010 by some seventy properties. Predict the price.
""", """
- `id` - the number of the sale
- `MS_SubClass` to `Sale_Condition` - kind of dwelling, zone, lot, neighbourhood, style, years built and remodelled, roof, outside
  walls, foundation, basement, heating, rooms, kitchen, fireplaces, garage, porches, pool, fence, month and year of the sale, its
  kind and condition. Areas (`*_SF`, `*_Area`, `*_porch`) are in square feet; a name such as `No_Garage` says that there is none
- `Longitude`, `Latitude` - where the house is
- `Sale_Price` - the price, in US dollars (`train.csv` only)
""", lambda: table("modeldata", "ames", ["Sale_Price"])),
    Task(
        "concrete-strength", "Strength of concrete", "rmse", ["compressive_strength"], "tabular", MODELDATA,
        "Yeh, Concrete Compressive Strength, UCI Machine Learning Repository, CC BY 4.0",
        """
Concrete of different mixtures was pressed until it broke, days to a year after it was poured. Predict the strength from the mixture
and the age. No mixture of the test set is in the training set.
""", """
- `id` - the number of the test
- `cement`, `blast_furnace_slag`, `fly_ash`, `water`, `superplasticizer`, `coarse_aggregate`, `fine_aggregate` - kg in a cubic metre
- `age` - in days
- `compressive_strength` - in MPa (`train.csv` only)
""", concrete),
    Task(
        "meat-spectra", "Water, fat and protein in meat", "mcrmse", ["water", "fat", "protein"], "tabular", MODELDATA,
        "Tecator meat samples, recorded on a Tecator Infratec Food and Feed Analyzer; may be redistributed with this note",
        """
An instrument shines near-infrared light through chopped meat and notes how much is absorbed at a hundred wavelengths; a laboratory
measures what the meat consists of. Predict the three contents from the spectrum. There are about two hundred samples.
""", """
- `id` - the number of the sample
- `x_001` to `x_100` - absorbance at wavelengths from 850 to 1050 nm, -log10 of the share of light that passes
- `water`, `fat`, `protein` - in per cent (`train.csv` only)
""", lambda: table("modeldata", "meats", ["water", "fat", "protein"])),
    Task(
        "chicago-ridership", "Riders at Clark and Lake", "mae", ["ridership"], "series", MODELDATA,
        "ridership of the Chicago Transit Authority with weather and games (Kuhn and Johnson, 2020); package MIT",
        """
Clark and Lake is a station of Chicago's elevated railway. The training set has the number of people who entered it each day over
some years, with the weather and the games of the city's teams. Predict the number on the days after its end, whose weather and
games are known.
""", """
- `date` - the day, YYYY-MM-DD; both files are in the order of time
- `temp_min`, `temp`, `temp_max`, `temp_change`, `dew` - temperatures, in degrees Fahrenheit
- `humidity` (per cent), `pressure` and `pressure_change` (inches of mercury), `wind`, `wind_max`, `gust`, `gust_max` (speeds)
- `percip`, `percip_max` - precipitation
- `weather_rain`, `weather_snow`, `weather_cloud`, `weather_storm` - the share of the day's reports that name it
- `Blackhawks_Away` to `Cubs_Home` - 1 on days with such a game
- `ridership` - people who entered, in thousands (`train.csv` only)
""", ridership, id_column="date"),
    Task(
        "lecture-ratings", "How will the student rate the lecture?", "rmse", ["rating"], "tabular", ["r-cran-lme4", "r-base-core"],
        "InstEval: evaluations of lectures at ETH Zurich, made anonymous; package GPL (>= 2)",
        """
Students of a university rated lectures that they had heard, from 1 (poor) to 5 (very good). Predict ratings that are left out. Both
sets hold ratings by the same students and of the same lecturers.
""", """
- `id` - the number of the rating
- `student`, `lecturer`, `department` - who rates, who is rated, and for which department the lecture was: numbers that name, and do
  not measure
- `student_age` - semesters for which the student has been enrolled, 2 to 8
- `lecture_age` - how many semesters back the lecture was, 1 to 6
- `service` - 1 if the lecture was for another department than the lecturer's own
- `rating` - the rating (`train.csv` only)
""", lectures),
]
