import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
import numpy as np

# Load and preprocess data
train_data = pd.read_json("/workdir/random-acts-of-pizza/prepared/public/train.json")
test_data = pd.read_json("/workdir/random-acts-of-pizza/prepared/public/test.json")

# Preprocess text data
tfidf_vectorizer = TfidfVectorizer(stop_words="english", max_features=1000)
X_train_tfidf = tfidf_vectorizer.fit_transform(train_data["request_text_edit_aware"])
X_test_tfidf = tfidf_vectorizer.transform(test_data["request_text_edit_aware"])

# Train a RandomForestClassifier
rf_classifier = RandomForestClassifier(n_estimators=100, random_state=42)

rf_classifier.fit(X_train_tfidf, train_data["requester_received_pizza"])

# Predict probabilities for the test set
y_pred_proba = rf_classifier.predict_proba(X_test_tfidf)[:, 1]

# Prepare submission file
submission = pd.DataFrame(
    {"request_id": test_data["request_id"], "requester_received_pizza": y_pred_proba}
)
submission.to_csv("./submission.csv", index=False)
