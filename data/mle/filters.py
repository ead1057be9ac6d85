"""The baselines of noisy pictures."""

import numpy as np
from PIL import Image
from scipy import ndimage, signal
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import Ridge


def pixels(path):
    with Image.open(path) as opened:
        return np.asarray(opened, dtype=float)


def around(picture, reach):
    """The pixels around each pixel, sorted apart from it, with their median and mean."""
    side = 2 * reach + 1
    padded = np.pad(picture, reach, mode="reflect")
    near = np.lib.stride_tricks.sliding_window_view(padded, (side, side)).reshape(-1, side * side)
    extra = [ndimage.median_filter(picture, s).ravel() for s in (3, 5)] + [np.full(picture.size, picture.std())]
    return np.column_stack([near, *extra])


def by_hand():
    from skimage import restoration

    yield "as it is", lambda p: p
    for s in (0.5, 0.8, 1.2, 2):
        yield f"Gaussian sigma={s}", lambda p, s=s: ndimage.gaussian_filter(p, s)
    for s in (3, 5, 7):
        yield f"median of {s}", lambda p, s=s: ndimage.median_filter(p, s)
        yield f"Wiener of {s}", lambda p, s=s: np.nan_to_num(signal.wiener(p, s))
    for s in (3, 5):
        yield f"mean of {s}", lambda p, s=s: ndimage.uniform_filter(p, s)
    for s in (0.5, 1):
        yield f"median of 3, Gaussian sigma={s}", lambda p, s=s: ndimage.gaussian_filter(ndimage.median_filter(p, 3), s)
    for w in (0.05, 0.1, 0.2):
        yield f"total variation weight={w}", lambda p, w=w: 255 * restoration.denoise_tv_chambolle(p / 255, weight=w)
    for h in (0.6, 1.0):
        yield f"non-local means h={h}", lambda p, h=h: 255 * restoration.denoise_nl_means(
            p / 255, patch_size=5, patch_distance=6, h=h * restoration.estimate_sigma(p / 255), fast_mode=True)


def submissions(train, test, public):
    files = list(dict.fromkeys(test["file"]))
    asked = [pixels(public / f) for f in files]
    for name, how in by_hand():
        yield name, cells(np.concatenate([how(p).ravel() for p in asked]))
    pairs = [(pixels(public / noisy), pixels(public / clean)) for noisy, clean in zip(train["file"], train["clean_file"])]
    y = np.concatenate([clean.ravel() for _, clean in pairs])
    for reach in (1, 2, 3):
        x, x_test = np.concatenate([around(n, reach) for n, _ in pairs]), np.concatenate([around(p, reach) for p in asked])
        yield f"ridge of {2 * reach + 1}", cells(Ridge(10).fit(x, y).predict(x_test))
        for steps in (50, 200):
            model = HistGradientBoostingRegressor(max_iter=steps, early_stopping=False, random_state=0)
            yield f"boosting of {2 * reach + 1} steps={steps}", cells(model.fit(x, y).predict(x_test))
        if reach == 2:
            model = ExtraTreesRegressor(30, min_samples_leaf=5, max_features=0.3, random_state=0)
            yield f"extra trees of {2 * reach + 1}", cells(model.fit(x, y).predict(x_test))


def cells(values):
    return [[f"{v:.3f}"] for v in np.clip(values, 0, 255)]
