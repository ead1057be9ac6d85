import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from xgboost import XGBClassifier

train = pd.read_json("train.json")
test = pd.read_json("test.json")
columns = ["requester_account_age_in_days_at_request", "requester_number_of_comments_at_request"]
for frame in (train, test):
    frame["length"] = frame["request_text_edit_aware"].str.len()
    frame["hour"] = pd.to_datetime(frame["unix_timestamp_of_request"], unit="s").dt.hour
columns += ["length", "hour"]
target = train["requester_received_pizza"].astype(int)

oof = np.zeros(len(train))
predictions = np.zeros(len(test))
folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
for fit, hold in folds.split(train, target):
    model = XGBClassifier(n_estimators=300, max_depth=4, learning_rate=0.05)
    model.fit(train.loc[fit, columns], target[fit], eval_set=[(train.loc[hold, columns], target[hold])], verbose=False)
    oof[hold] = model.predict_proba(train.loc[hold, columns])[:, 1]
    predictions += model.predict_proba(test[columns])[:, 1] / folds.n_splits
print("validation score:", roc_auc_score(target, oof))

out = pd.DataFrame({"request_id": test["request_id"], "requester_received_pizza": predictions})
out.to_csv("submission.csv", index=False)
