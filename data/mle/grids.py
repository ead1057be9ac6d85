"""The baselines of tables: estimators of scikit-learn at several settings, with fixed seeds."""

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier, ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor,
    RandomForestClassifier, RandomForestRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.naive_bayes import ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import numpy as np


def scaled(numbers, names, sparse=False):
    """Numbers at mean 0 and variance 1, names one-hot."""
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=1 if sparse else 5, sparse_output=sparse)
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return ColumnTransformer([("numbers", numeric, numbers), ("names", encoder, names)])


def coded(numbers, names):
    """Numbers as they are, names as numbers in the order of the alphabet."""
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return ColumnTransformer([("numbers", SimpleImputer(strategy="median"), numbers), ("names", encoder, names)])


def classifiers(several):
    """Name, kind of features, estimator. Those that take long are left out where there are several targets."""
    from_all = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    out = [(f"logistic regression C={c}", "scaled", LogisticRegression(C=c, max_iter=2000)) for c in (0.01, 0.1, 1, 10)]
    out += [(f"k-NN k={k}", "scaled", KNeighborsClassifier(k)) for k in (1, 5, 15, 50)]
    out += [("Gaussian naive Bayes", "scaled", GaussianNB(var_smoothing=1e-3)), ("linear discriminant", "scaled", from_all)]
    out += [(f"tree depth={d}", "coded", DecisionTreeClassifier(max_depth=d, min_samples_leaf=5, random_state=0)) for d in (1, 3, 6, 10, None)]
    out += [
        (f"random forest trees={n} leaf={leaf}", "coded", RandomForestClassifier(n, min_samples_leaf=leaf, random_state=0))
        for n, leaf in ((20, 1), (200, 1), (200, 5))
    ]
    out += [(f"extra trees leaf={leaf}", "coded", ExtraTreesClassifier(200, min_samples_leaf=leaf, random_state=0)) for leaf in (1, 3)]
    out += [
        (f"boosting rate={rate} steps={steps} leaves={leaves}", "coded", HistGradientBoostingClassifier(
            learning_rate=rate, max_iter=steps, max_leaf_nodes=leaves, early_stopping=False, random_state=0))
        for rate, steps, leaves in ((0.1, 20, 31), (0.1, 100, 31), (0.1, 100, 8), (0.05, 200, 8), (0.03, 200, 16))
    ]
    if not several:
        out += [(f"support vectors C={c}", "scaled", SVC(C=c, probability=True, random_state=0)) for c in (1, 10)]
        out += [(f"network {size}", "scaled", MLPClassifier((size,), alpha=1, max_iter=200, random_state=0)) for size in (16, 64)]
    return out


def balanced():
    """Classifiers that weigh the classes equally."""
    same = {"class_weight": "balanced"}
    out = [(f"logistic regression C={c} balanced", "scaled", LogisticRegression(C=c, max_iter=2000, **same)) for c in (0.1, 1, 10)]
    return out + [
        ("tree depth=6 balanced", "coded", DecisionTreeClassifier(max_depth=6, min_samples_leaf=5, random_state=0, **same)),
        ("random forest trees=200 leaf=5 balanced", "coded", RandomForestClassifier(200, min_samples_leaf=5, random_state=0, **same)),
        ("boosting rate=0.1 steps=100 leaves=8 balanced", "coded", HistGradientBoostingClassifier(
            max_iter=100, max_leaf_nodes=8, early_stopping=False, random_state=0, **same)),
    ]


def boosted(rate, steps, leaves, loss="squared_error"):
    return HistGradientBoostingRegressor(
        learning_rate=rate, max_iter=steps, max_leaf_nodes=leaves, loss=loss, early_stopping=False, random_state=0)


def standard(estimator):
    """Learns a target at mean 0 and variance 1."""
    return TransformedTargetRegressor(estimator, transformer=StandardScaler())


def regressors(metric):
    out = [(f"ridge alpha={a}", "scaled", Ridge(a)) for a in (0.1, 1, 10, 100)]
    out += [(f"k-NN k={k}", "scaled", KNeighborsRegressor(k)) for k in (1, 5, 15, 50)]
    out += [(f"tree depth={d}", "coded", DecisionTreeRegressor(max_depth=d, min_samples_leaf=5, random_state=0)) for d in (1, 3, 6, 10, None)]
    out += [
        (f"random forest trees={n} leaf={leaf}", "coded", RandomForestRegressor(n, min_samples_leaf=leaf, max_features=0.5, random_state=0))
        for n, leaf in ((20, 1), (100, 1), (100, 5))
    ]
    out += [(f"extra trees leaf={leaf}", "coded", ExtraTreesRegressor(100, min_samples_leaf=leaf, max_features=0.5, random_state=0)) for leaf in (1, 3)]
    out += [
        (f"boosting rate={rate} steps={steps} leaves={leaves}", "coded", boosted(rate, steps, leaves))
        for rate, steps, leaves in ((0.1, 20, 31), (0.1, 100, 31), (0.1, 100, 8), (0.05, 300, 8), (0.03, 300, 16))
    ]
    if metric != "poisson-deviance":
        out += [(f"support vectors C={c}", "scaled", standard(SVR(C=c))) for c in (0.1, 1, 10)]
        out += [(f"network {size}", "scaled", standard(MLPRegressor((size,), alpha=1, max_iter=300, random_state=0))) for size in (16, 64)]
    if metric == "poisson-deviance":
        out += [(f"Poisson regression alpha={a}", "scaled", PoissonRegressor(alpha=a, max_iter=1000)) for a in (0.001, 0.1, 1)]
        out += [(f"boosting Poisson steps={steps}", "coded", boosted(0.05, steps, 8, "poisson")) for steps in (50, 150, 400)]
    if metric in ("mae", "median-absolute-error"):
        out += [(f"boosting absolute error steps={steps}", "coded", boosted(0.1, steps, 16, "absolute_error")) for steps in (50, 200)]
    if metric == "rmsle":
        again = (
            "ridge alpha=1", "ridge alpha=10", "k-NN k=5", "random forest trees=100 leaf=1",
            "boosting rate=0.05 steps=300 leaves=8", "support vectors C=1",
        )
        out += [
            (f"{name} of the log", kind, TransformedTargetRegressor(e, func=np.log1p, inverse_func=np.expm1))
            for name, kind, e in out if name in again
        ]
    if metric == "mcrmse":
        out += [(f"partial least squares n={n}", "scaled", PLSRegression(n, scale=False)) for n in (3, 8, 15, 25)]
    return out


def joined(frame):
    return [" ".join(map(str, cells)) for cells in frame.to_numpy()]


def text(analyzer, most):
    """Texts as weighted counts of words, or of runs of up to that many characters."""
    return make_pipeline(FunctionTransformer(joined), TfidfVectorizer(
        analyzer=analyzer, ngram_range=(1, most), min_df=2, sublinear_tf=True, max_features=60000))


FEATURES = {"words": ("word", 1), "pairs": ("word", 2), "characters": ("char_wb", 4)}


def text_classifiers():
    out = []
    for kind in FEATURES:
        out += [(f"logistic regression C={c} {kind}", kind, LogisticRegression(C=c, max_iter=1000)) for c in (0.3, 3, 30)]
        out += [(f"naive Bayes alpha={a} {kind}", kind, MultinomialNB(alpha=a)) for a in (0.03, 0.1, 0.5)]
        out += [(f"complement naive Bayes alpha=0.3 {kind}", kind, ComplementNB(alpha=0.3))]
    out += [(f"k-NN k={k} words", "words", KNeighborsClassifier(k)) for k in (5, 50)]
    out += [(f"tree depth={d} words", "words", DecisionTreeClassifier(max_depth=d, min_samples_leaf=5, random_state=0)) for d in (5, 20)]
    return out + [
        ("random forest words", "words", RandomForestClassifier(100, random_state=0)),
        ("extra trees words", "words", ExtraTreesClassifier(100, random_state=0)),
    ]


def text_regressors():
    out = []
    for kind in FEATURES:
        out += [(f"ridge alpha={a} {kind}", kind, Ridge(a)) for a in (0.1, 1, 10)]
        out += [(f"k-NN k={k} {kind}", kind, KNeighborsRegressor(k, weights="distance")) for k in (1, 5, 20)]
        out += [(f"support vectors C=0.3 {kind}", kind, standard(SVR(C=0.3, kernel="linear")))]
    out += [(f"tree depth={d} words", "words", DecisionTreeRegressor(max_depth=d, min_samples_leaf=3, random_state=0)) for d in (5, 20, None)]
    return out + [
        ("random forest words", "words", RandomForestRegressor(50, max_features=0.1, random_state=0)),
        ("extra trees words", "words", ExtraTreesRegressor(50, max_features=0.1, random_state=0)),
    ]
