package grader

import (
	"cmp"
	"slices"

	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// competitions are all 82, by id.
var competitions = func() []*Competition {
	all := slices.Concat(low, medium, high, dev)
	slices.SortFunc(all, func(a, b *Competition) int { return cmp.Compare(a.ID, b.ID) })
	return all
}()

// Names of files that several competitions have.
const (
	answers          = "answers.csv"
	test             = "test.csv"
	sampleSubmission = "sample_submission.csv"
	camelSubmission  = "sampleSubmission.csv"
)

// What the data of a competition are.
const (
	tabular = "tabular"
	text    = "text"
	image   = "image"
	series  = "series"
)

func names(of ...string) []string { return of }

// lower says that lower scores are better, down to 0.
func (c *Competition) lower() *Competition { return c.lowerTo(0) }

func (c *Competition) lowerTo(best float64) *Competition {
	c.LowerIsBetter, c.best = true, best
	return c
}

func (c *Competition) upTo(best float64) *Competition {
	c.best = best
	return c
}

// needs names the columns of numbers that the answers have, and further ones, where
// they are not those of a submission.
func (c *Competition) needs(numbers []string, others ...string) *Competition {
	c.numbers, c.others = numbers, others
	return c
}

// sample names the file of the sample, where it has another name.
func (c *Competition) sample(file string) *Competition {
	c.SampleFile = file
	return c
}

func competition(split Split, id, modality, metric, answersFile, idColumn string, columns []string, score func(*pair) (float64, error), checks ...check) *Competition {
	return &Competition{ID: id, Split: split, Modality: modality, Metric: metric, AnswersFile: answersFile, SampleFile: sampleSubmission, best: 1, id: idColumn, columns: columns, checks: checks, score: score}
}

// aucCompetition has one column of probabilities.
func aucCompetition(split Split, id, modality, answersFile, idColumn, target string) *Competition {
	return competition(split, id, modality, "area under the ROC curve", answersFile, idColumn, names(target), auc(target), has, asMany, numeric(target), within(0, 1, target), sameIDs)
}

// accuracyCompetition has one column of labels.
func accuracyCompetition(split Split, id, modality, answersFile, idColumn, target string) *Competition {
	return competition(split, id, modality, "accuracy", answersFile, idColumn, names(target), accuracyOf(target), has, asMany, sameIDs)
}

// writtenCompetition has one column of texts, of which every letter counts.
func writtenCompetition(split Split, id, modality, answersFile, idColumn, target string) *Competition {
	return competition(split, id, modality, "accuracy of exact texts", answersFile, idColumn, names(target), writtenAccuracy(target), has, asMany, sameIDs)
}

// macroCompetition has one column of whole numbers.
func macroCompetition(split Split, id, modality, answersFile, idColumn, target string) *Competition {
	return competition(split, id, modality, "macro F1", answersFile, idColumn, names(target), macroF1(target), has, asMany, sameIDs)
}

// labelsCompetition has one column of several labels.
func labelsCompetition(split Split, id, modality, answersFile, idColumn, target string) *Competition {
	return competition(split, id, modality, "micro F1 over labels", answersFile, idColumn, names(target), labelsF1(target), has, asMany, sameIDs)
}

var low = []*Competition{
	aucCompetition(Low, "aerial-cactus-identification", image, test, "id", "has_cactus"),
	competition(Low, "aptos2019-blindness-detection", image, "quadratic weighted kappa", test, "id_code", names("diagnosis"), quadraticKappa("diagnosis"), has, anyRow, idSet, sorted),
	competition(Low, "denoising-dirty-documents", image, "root mean squared error", answers, "id", names("value"), rmse("value"), has, numeric("value"), asMany, sameIDs).lower().sample(camelSubmission),
	aucCompetition(Low, "detecting-insults-in-social-commentary", text, test, "Comment", "Insult").sample("sample_submission_null.csv"),
	competition(Low, "dog-breed-identification", image, "multi-class log loss", test, "id", nil, classLogLoss, has, asMany, sumsToOne(isClose(1e-6)), within(0, 1), sameIDs).lower(),
	competition(Low, "dogs-vs-cats-redux-kernels-edition", image, "log loss", answers, "id", names("label"), logLoss("label"), has, idSet, asMany, within(0, 1, "label"), sameIDs).lower(),
	aucCompetition(Low, "histopathologic-cancer-detection", image, answers, "id", "label"),
	competition(Low, "jigsaw-toxic-comment-classification-challenge", text, "mean column-wise area under the ROC curve", test, "id", toxicities, toxicAUC, has, asMany).needs(toxicities),
	competition(Low, "leaf-classification", image, "multi-class log loss", test, "id", nil, classLogLoss, hasOnly, asMany, sumsToOne(isClose(1e-6)), within(0, 1), sameIDs).lower(),
	aucCompetition(Low, "mlsp-2013-birds", series, answers, "Id", "Probability"),
	competition(Low, "new-york-city-taxi-fare-prediction", tabular, "root mean squared error", test, "key", names("fare_amount"), rmse("fare_amount"), has, sorted).lower(),
	competition(Low, "nomad2018-predict-transparent-conductors", tabular, "mean column-wise root mean squared logarithmic error", test, "id", names("formation_energy_ev_natom", "bandgap_energy_ev"), rmsle("formation_energy_ev_natom", "bandgap_energy_ev"), hasTargets, asMany).lower(),
	competition(Low, "plant-pathology-2020-fgvc7", image, "mean column-wise area under the ROC curve", test, "image_id", names("healthy", "multiple_diseases", "rust", "scab"), auc("healthy", "multiple_diseases", "rust", "scab"), asMany, hasOnly, sameIDs),
	aucCompetition(Low, "random-acts-of-pizza", text, test, "request_id", "requester_received_pizza").sample(camelSubmission),
	competition(Low, "ranzcr-clip-catheter-line-classification", image, "mean column-wise area under the ROC curve", test, "StudyInstanceUID", catheters, auc(catheters...), has, asMany, numeric(catheters...), within(0, 1, catheters...), sameIDs),
	aucCompetition(Low, "siim-isic-melanoma-classification", image, test, "image_name", "target"),
	competition(Low, "spooky-author-identification", text, "multi-class log loss", test, "id", names("EAP", "HPL", "MWS"), classLogLoss, hasOnly, idFirst, asMany, sumsToOne(isClose(1e-6)), within(0, 1), sameIDs).lower(),
	accuracyCompetition(Low, "tabular-playground-series-dec-2021", tabular, test, "Id", "Cover_Type"),
	aucCompetition(Low, "tabular-playground-series-may-2022", tabular, test, "id", "target"),
	writtenCompetition(Low, "text-normalization-challenge-english-language", text, answers, "id", "after"),
	writtenCompetition(Low, "text-normalization-challenge-russian-language", text, answers, "id", "after"),
	aucCompetition(Low, "the-icml-2013-whale-challenge-right-whale-redux", series, test, "clip", "probability").sample(camelSubmission),
}

var toxicities = names("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")

var catheters = names("ETT - Abnormal", "ETT - Borderline", "ETT - Normal", "NGT - Abnormal", "NGT - Borderline", "NGT - Incompletely Imaged", "NGT - Normal", "CVC - Abnormal", "CVC - Borderline")

// hasTargets refuses a submission that lacks a column of values; the id is not
// looked at.
var hasTargets = check{after: Table, of: func(p *pair) error { return p.lacks(p.classes()) }}

var medium = []*Competition{
	competition(Medium, "AI4Code", text, "Kendall tau of cell orders", "test_orders.csv", "id", names("cell_order"), cellOrder, asMany, has, idSet, sameIDs),
	competition(Medium, "alaska2-image-steganalysis", image, "weighted area under the ROC curve", test, "Id", names("Label"), weightedAUC, asMany, has, sameIDs),
	competition(Medium, "billion-word-imputation", text, "mean Levenshtein distance", test, "id", names("sentence"), editDistance("sentence", presentTexts), has, asMany, sameIDs).lower(),
	accuracyCompetition(Medium, "cassava-leaf-disease-classification", image, test, "image_id", "label"),
	accuracyCompetition(Medium, "cdiscount-image-classification-challenge", image, answers, "_id", "category_id"),
	competition(Medium, "chaii-hindi-and-tamil-question-answering", text, "mean word-level Jaccard score", test, "id", names("PredictionString"), jaccard("PredictionString", textsOf, true), asMany, has, sameIDs),
	competition(Medium, "champs-scalar-coupling", tabular, "mean logarithm of the mean absolute error by type", answers, "id", names("scalar_coupling_constant"), couplingError, has, idSet).lowerTo(-4).needs(names("scalar_coupling_constant"), "type"),
	labelsCompetition(Medium, "facebook-recruiting-iii-keyword-extraction", text, test, "Id", "Tags"),
	competition(Medium, "freesound-audio-tagging-2019", series, "label-weighted label-ranking average precision", test, "fname", nil, rankingPrecision, asMany, inOrder, sameIDs),
	competition(Medium, "google-quest-challenge", text, "mean column-wise Spearman correlation", test, "qa_id", nil, rankCorrelations, hasOnly, asMany, sorted),
	competition(Medium, "h-and-m-personalized-fashion-recommendations", tabular, "mean average precision at 12", answers, "customer_id", names("prediction"), precisionAt(12, "prediction"), hasOnly, idSuperset, sorted),
	macroCompetition(Medium, "herbarium-2020-fgvc7", image, answers, "Id", "Predicted"),
	macroCompetition(Medium, "herbarium-2021-fgvc8", image, answers, "Id", "Predicted"),
	macroCompetition(Medium, "herbarium-2022-fgvc9", image, answers, "Id", "Predicted"),
	competition(Medium, "hotel-id-2021-fgvc8", image, "mean average precision at 5", test, "image", names("hotel_id"), precisionAt(5, "hotel_id"), has, idSet, asMany, sorted),
	competition(Medium, "hubmap-kidney-segmentation", image, "mean Dice coefficient", test, "id", names("predicted"), meanDice, has, asMany, idSet, sameIDs).needs(names("width_pixels", "height_pixels"), "encoding"),
	competition(Medium, "icecube-neutrinos-in-deep-ice", series, "mean angular error in radians", test, "event_id", names("azimuth", "zenith"), meanAngle, hasOnly, noBooleans, asMany, idSet, sorted).lower(),
	labelsCompetition(Medium, "imet-2020-fgvc7", image, answers, "id", "attribute_ids"),
	competition(Medium, "inaturalist-2019-fgvc6", image, "classification error", answers, "id", names("predicted"), firstTokenError("predicted"), asMany, has, sameIDs).lower().sample("kaggle_sample_submission.csv"),
	accuracyCompetition(Medium, "iwildcam-2020-fgvc7", image, answers, "Id", "Category"),
	competition(Medium, "jigsaw-unintended-bias-in-toxicity-classification", text, "mean of overall and bias AUCs", test, "id", names("prediction"), biasAUC, hasID, sameIDs).needs(append(names("toxicity"), identities...)),
	competition(Medium, "kuzushiji-recognition", image, "F1 of located characters", test, "image_id", names("labels"), characterF1, asMany, has, sameIDs),
	competition(Medium, "learning-agency-lab-automated-essay-scoring-2", text, "quadratic weighted kappa", answers, "essay_id", names("score"), quadraticKappa("score"), has, anyRow, sameIDs),
	competition(Medium, "lmsys-chatbot-arena", text, "multi-class log loss", answers, "id", names("winner_model_a", "winner_model_b", "winner_tie"), classLogLoss, has, asMany, within(0, 1), sumsToOne(roundsToOne(6)), sameIDs).lower(),
	competition(Medium, "multi-modal-gesture-recognition", image, "Levenshtein distance over the number of gestures", test, "Id", names("Sequence"), gestureDistance, asMany, has, sameIDs).lower().sample("randomPredictions.csv"),
	competition(Medium, "osic-pulmonary-fibrosis-progression", image, "modified Laplace log likelihood", test, "Patient_Week", names("FVC", "Confidence"), lungScore, has, idSubset, numeric("FVC", "Confidence")).upTo(-4.595).needs(names("FVC"), "Patient"),
	competition(Medium, "petfinder-pawpularity-score", image, "root mean squared error", test, "Id", names("Pawpularity"), rmse("Pawpularity"), has, within(1, 100, "Pawpularity"), sameIDs).lower(),
	labelsCompetition(Medium, "plant-pathology-2021-fgvc8", image, answers, "image", "labels"),
	aucCompetition(Medium, "seti-breakthrough-listen", image, test, "id", "target"),
	competition(Medium, "statoil-iceberg-classifier-challenge", image, "log loss", test, "id", names("is_iceberg"), logLoss("is_iceberg"), has, idSet, within(0, 1, "is_iceberg"), sorted).lower(),
	accuracyCompetition(Medium, "tensorflow-speech-recognition-challenge", series, test, "fname", "label"),
	func() *Competition {
		c := competition(Medium, "tensorflow2-question-answering", text, "micro F1 of answers", "test.jsonl", "example_id", names("PredictionString"), answeredRight, asMany, has, questionIDs)
		c.read = readQuestions
		return c
	}(),
	competition(Medium, "tgs-salt-identification-challenge", image, "mean average precision at IoU 0.5 to 0.95", test, "id", names("rle_mask"), saltPrecision, hasOnly, asMany, textIDs, sameIDs),
	competition(Medium, "tweet-sentiment-extraction", text, "mean word-level Jaccard score", test, "textID", names("selected_text"), jaccard("selected_text", filled, false), has, asMany, sameIDs),
	competition(Medium, "us-patent-phrase-to-phrase-matching", text, "Pearson correlation", test, "id", names("score"), linearCorrelation("score"), asMany, has, sameIDs),
	competition(Medium, "uw-madison-gi-tract-image-segmentation", image, "0.4 Dice and 0.6 Hausdorff score", test, "id", names("class", "predicted"), tractScore, has).needs(names("image_width", "image_height"), "predicted"),
	competition(Medium, "ventilator-pressure-prediction", series, "mean absolute error while air flows in", test, "id", names("pressure"), breathError, has, asMany, sameIDs).lower().needs(names("pressure", "u_out")),
	competition(Medium, "whale-categorization-playground", image, "mean average precision at 5", test, "Image", names("Id"), precisionAt(5, "Id"), hasOnly, asMany, idSet, sorted),
}

// hasID asks for the id alone: the name of the other column is looked at later.
var hasID = check{after: Table, of: func(p *pair) error { return p.lacks(p.wanted[:1]) }}

// noBooleans refuses columns of truth values.
var noBooleans = check{after: IDs, of: func(p *pair) error {
	for _, name := range p.classes() {
		if c := p.given.Column(name); c.Kind > 1 && c.Len() > 0 {
			return p.cell(0, name, "%s is not a number", frame.Shortened(c.String(0)))
		}
	}
	return nil
}}

// textIDs refuses ids that are read as numbers.
var textIDs = check{after: Columns, of: func(p *pair) error {
	_, err := textsOf(p.given.Column(p.id))
	return err
}}

var high = []*Competition{
	competition(High, "3d-object-detection-for-autonomous-vehicles", image, "mean average precision of 3D boxes at IoU 0.5 to 0.95", test, "Id", names("PredictionString"), solidPrecision, asMany, has, sameIDs),
	competition(High, "bms-molecular-translation", image, "mean Levenshtein distance", test, "image_id", names("InChI"), editDistance("InChI", written), asMany, has, sameIDs).lower(),
	competition(High, "google-research-identify-contrails-reduce-global-warming", image, "Dice coefficient over all pixels", answers, "record_id", names("encoded_pixels"), globalDice, has, asMany, sameIDs).needs(names("width", "height"), "encoded_pixels"),
	competition(High, "hms-harmful-brain-activity-classification", series, "Kullback-Leibler divergence", test, "eeg_id", votes, voteDivergence, has, asMany, sumsToOne(roundsToOne(5), votes...), idSet, probabilities).lower().needs(votes),
	macroCompetition(High, "iwildcam-2019-fgvc6", image, answers, "Id", "Category"),
	competition(High, "nfl-player-contact-detection", image, "Matthews correlation coefficient", test, "contact_id", names("contact"), matthews("contact"), has, idSet, asMany, sorted),
	competition(High, "predict-volcanic-eruptions-ingv-oe", series, "mean absolute error", test, "segment_id", names("time_to_eruption"), wholeError, has, idSet).lower(),
	competition(High, "rsna-2022-cervical-spine-fracture-detection", image, "weighted log loss", answers, "row_id", names("fractured"), fractureLoss, has, within(0, 1, "fractured"), sameIDs).lower(),
	competition(High, "rsna-breast-cancer-detection", image, "probabilistic F1", answers, "prediction_id", names("cancer"), probabilisticF1, has, asMany, sameIDs),
	aucCompetition(High, "rsna-miccai-brain-tumor-radiogenomic-classification", image, test, "BraTS21ID", "MGMT_value"),
	competition(High, "siim-covid19-detection", image, "mean average precision at IoU above 0.5", test, "id", names("PredictionString"), chestPrecision, asMany, has, sameIDs),
	competition(High, "smartphone-decimeter-2022", series, "mean of the 50th and 95th percentile distance errors in metres", test, "tripId", names("UnixTimeMillis", "LatitudeDegrees", "LongitudeDegrees"), tripDistance, has, asMany, numeric("LatitudeDegrees", "LongitudeDegrees")).lower().needs(names("LatitudeDegrees", "LongitudeDegrees")),
	competition(High, "stanford-covid-vaccine", series, "mean column-wise root mean squared error", test, "id_seqpos", names("reactivity", "deg_Mg_pH10", "deg_pH10", "deg_Mg_50C", "deg_50C"), rnaError, asMany, has, sameIDsInOrder).lower().needs(names("reactivity", "deg_Mg_pH10", "deg_Mg_50C", "keep")),
	competition(High, "vesuvius-challenge-ink-detection", image, "F0.5 over pixels", "inklabels_rle.csv", "Id", names("Predicted"), inkScore, asMany, hasOnly).needs(names("width", "height"), "Predicted"),
	competition(High, "vinbigdata-chest-xray-abnormalities-detection", image, "mean average precision at IoU 0.4", answers, "image_id", names("PredictionString"), xrayPrecision, has, idSet).needs(names("class_id", "x_min", "y_min", "x_max", "y_max")),
}

var dev = []*Competition{
	aucCompetition(Dev, "invasive-species-monitoring", image, answers, "name", "invasive"),
	accuracyCompetition(Dev, "ml2021spring-hw2", series, answers, "Id", "ClassId").sample(camelSubmission),
	accuracyCompetition(Dev, "movie-review-sentiment-analysis-kernels-only", text, answers, "PhraseId", "Sentiment").sample(camelSubmission),
	competition(Dev, "paddy-disease-classification", image, "accuracy", test, "image_id", names("label"), filledAccuracy("label"), has, asMany, sameIDs),
	competition(Dev, "plant-seedlings-classification", image, "micro F1", answers, "file", names("species"), pureAccuracy("species"), has, asMany, sameIDs),
	competition(Dev, "playground-series-s3e18", tabular, "mean column-wise area under the ROC curve", test, "id", names("EC1", "EC2"), auc("EC1", "EC2"), has, asMany, sameIDs),
	accuracyCompetition(Dev, "spaceship-titanic", tabular, test, "PassengerId", "Transported"),
}
