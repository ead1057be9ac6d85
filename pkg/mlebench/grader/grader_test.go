package grader

import (
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// table is a CSV file: rows between slashes.
func table(rows string) []byte { return []byte(strings.ReplaceAll(rows, " / ", "\n") + "\n") }

// Numbers worked by hand from the definitions of the metrics, and each of the rules
// by which a submission is refused.
func TestScores(t *testing.T) {
	t.Parallel()
	const nan = "nan"
	ids := "male,female,homosexual_gay_or_lesbian,christian,jewish,muslim,black,white,psychiatric_or_mental_illness"
	nine, eight := func(v string) string { return strings.Repeat(","+v, 9) }, func(v string) string { return strings.Repeat(","+v, 8) }
	const xray, votes0 = "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / ", "eeg_id,seizure_vote,lpd_vote,gpd_vote,lrda_vote,grda_vote,other_vote / "
	for _, c := range []struct {
		competition, answers, given string
		want                        any // a score, "nan", or a part of what is wrong
	}{
		// One of two pairs is a tie.
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1 / c,1", "has_cactus,id,more / 0.1,b,x / 0.9,c,y / 0.1,a,z", 0.75},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,False / b,True", 1.0},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,0 / b,1.0000001", "outside 0 to 1"},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a, / b,1", "NaN is outside"},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,no / b,1", "not of numbers"},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,0 / c,1", `"c" stands where "b"`},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,0", "1 rows where 2"},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,Has_cactus / a,0 / b,1", `"has_cactus" is missing`},
		{"aerial-cactus-identification", "id,has_cactus / 1,0 / 2,1", "id,has_cactus / 2.0,1 / 1.0,0", 1.0},
		{"aerial-cactus-identification", "id,has_cactus / a,1 / b,1", "id,has_cactus / a,0 / b,1", "one class"},
		{"dogs-vs-cats-redux-kernels-edition", "id,label / 1,1 / 2,0", "id,label / 1,0.25 / 2,0.5", (math.Log(4) + math.Ln2) / 2},
		{"dogs-vs-cats-redux-kernels-edition", "id,label / 1,1 / 2,0", "id,label / 1,1 / 2,0", -math.Log1p(-0x1p-52)},
		{"statoil-iceberg-classifier-challenge", "id,is_iceberg / a,1 / b,0", "id,is_iceberg / a,0.5 / b,0.5 / b,0.5", "3 rows are compared with 2"},
		{"statoil-iceberg-classifier-challenge", "id,is_iceberg / a,1 / b,0", "id,is_iceberg / a,0.5", `id "b" is left out`},
		{"lmsys-chatbot-arena", "id,winner_model_a,winner_model_b,winner_tie / 1,1,0,0 / 2,0,0,1", "id,winner_model_a,winner_model_b,winner_tie / 1,0.5,0.25,0.25 / 2,0.5,0.25,0.25", 1.5 * math.Ln2},
		{"lmsys-chatbot-arena", "id,winner_model_a,winner_model_b,winner_tie / 1,1,0,0", "id,winner_model_a,winner_model_b,winner_tie / 1,0.500001,0.25,0.25", "not to 1"},
		{"dog-breed-identification", "id,x,y / 1,1,0 / 2,0,1", "id,y,x,more / 1,0.75,0.25001,9 / 2,0.75,0.25,9", (-math.Log(0.25001) - math.Log(0.75)) / 2},
		{"dog-breed-identification", "id,x,y / 1,1,0 / 2,0,1", "id,y,x / 1,0.75,0.2502 / 2,0.75,0.25", "not to 1"},
		{"leaf-classification", "id,x,y / 1,1,0 / 2,0,1", "id,y,x,z / 1,0.75,0.25,0 / 2,0.75,0.25,0", `"z" is not asked for`},
		{"spooky-author-identification", "id,EAP,HPL,MWS / a,1,0,0", "EAP,HPL,MWS,id / 1,0,0,a", "first column"},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / a,0,0,0,0,0,0 / b,1,1,1,1,1,1 / c,-1,-1,-1,-1,-1,-1", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / a,0,0,0,0,0,1 / b,1,1,1,1,1,0 / c,,9,word,,,", 5.0 / 6},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / a,0,0,0,0,0,0 / b,1,1,1,1,1,1", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate,more / a,0,0,0,0,0,1,1 / b,1,1,1,1,1,0,1", "7 columns"},
		{"alaska2-image-steganalysis", "Id,Label / a,0 / b,1", "Id,Label / a,7 / b,7", 0.82 / 1.4}, // the diagonal: 2·0.32 + 0.18
		{"alaska2-image-steganalysis", "Id,Label / a,0 / b,1", "Id,Label / a,-7 / b,7", 1.0},
		// From (1/2, 0) to (1, 1), past 0.4 at x = 0.7: 0.8·0.4 + 0.6·0.15.
		{"alaska2-image-steganalysis", "Id,Label / a,0 / b,1 / c,0", "Id,Label / a,9 / b,7 / c,7", 0.41 / 1.4},
		// Of the comments with and without an identity, the harmless one without is called toxic.
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,0.5" + nine("1") + " / 2,0.4" + nine("0.5") + " / 3,1" + nine("") + " / 4,0" + nine("0.4"), "id,prediction / 1,5 / 2, / 3,0.5 / 4,0.7", (0.75 + 1 + 1 + 0.5) / 4},
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,1" + nine("1") + " / 2,0" + nine("1"), "id,prediction,toxicity / 1,1,1 / 2,0,0", "one of them"},
		{"rsna-2022-cervical-spine-fracture-detection", "row_id,fractured / s_patient_overall,1 / s_C1,0", "row_id,fractured / s_C1,0.5 / s_patient_overall,0.8", (14*-math.Log(0.8) + math.Ln2) / 15},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,0", "prediction_id,cancer / a,0.8 / b,0.4", 2 * (0.8 / 1.2) * 0.8 / (0.8/1.2 + 0.8)},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,0", "prediction_id,cancer / a,0 / b,-1", 0.0},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,0", "prediction_id,cancer / a,-1 / b,-1", "every prediction is negative"},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,0", "prediction_id,cancer / a,1 / b,", 0.0},
		{"freesound-audio-tagging-2019", "fname,A,B,C / x,1,0,1 / y,0,0,0 / z,1,1,1", "fname,A,B,C / z,0,0,0 / x,0.9,0.8,0.7 / y,1,2,3", (1 + 2.0/3 + 3) / 5},
		{"freesound-audio-tagging-2019", "fname,A,B / x,1,0", "fname,B,A / x,1,0", "in this order"},
		{"google-quest-challenge", "qa_id,u,v / 1,1,1 / 2,2,2 / 3,3,3", "v,u,qa_id / 1,10,7 / 3,20,8 / 2,30,9", 0.75},
		{"google-quest-challenge", "qa_id,u,v / 1,1,1 / 2,2,2", "qa_id,u,v / 1,1,5 / 2,2,5", nan},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,0.5 / c,1", "id,score / a,0 / b,0 / c,1", math.Sqrt(0.75)},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,0 / b,", nan},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,0 / b,x", "not a number"},

		{"cassava-leaf-disease-classification", "image_id,label / a,1 / b,2 / c,3", "image_id,label / a,1.0 / b,3 / c,3", 2.0 / 3},
		{"cassava-leaf-disease-classification", "image_id,label / a,1 / b,2 / c,3", "image_id,label / a,1.5 / b,3 / c,3", "must be whole"},
		{"cassava-leaf-disease-classification", "image_id,label / a,1 / b,2 / c,3", "image_id,label / a,one / b,2 / c,3", 0.0},
		{"spaceship-titanic", "PassengerId,Transported / a,True / b,False", "PassengerId,Transported / a,yes / b,no", "texts and numbers"},
		{"spaceship-titanic", "PassengerId,Transported / a,True / b,False", "PassengerId,Transported / a,1 / b,1", 0.5},
		{"paddy-disease-classification", "image_id,label / a,x / b,y / c,z", "image_id,label / a,x / b, / c,y", 1.0 / 3},
		{"paddy-disease-classification", "image_id,label / a,x / b,y / c,z", "image_id,label / a,1 / b,2 / c,3", 0.0},
		{"paddy-disease-classification", "image_id,label / a,x / b,y / c,z", "image_id,label / a,1 / b,2 / c,2", 0.0},
		{"paddy-disease-classification", "image_id,label / a,x / b,y / c,y", "image_id,label / a,1 / b,2 / c,3", 0.0},
		{"plant-seedlings-classification", "file,species / a,x / b,y / c,z", "file,species / a,1 / b,2 / c,3", "texts and numbers"},
		{"text-normalization-challenge-english-language", "id,after / a,NA / b,x / c,x", "id,after / a, / b,x / c,X", 2.0 / 3},
		{"inaturalist-2019-fgvc6", "id,predicted / a,1 / b,2", "id,predicted / a,1 9 / b,3 2", 0.5},
		{"inaturalist-2019-fgvc6", "id,predicted / a,1 / b,2", "id,predicted / a,1.0 / b,3", "fractions"},
		{"inaturalist-2019-fgvc6", "id,predicted / a,1 / b,2", "id,predicted / a,1 2 / b,", "it is empty"},
		// Grades 0, 1, 2: one pair is one apart, and 6 is expected.
		{"aptos2019-blindness-detection", "id_code,diagnosis / a,0 / b,1 / c,2 / d,2", "id_code,diagnosis / d,2 / a,0 / b,2 / c,2", 5.0 / 6},
		{"aptos2019-blindness-detection", "id_code,diagnosis / a,0 / b,4", "id_code,diagnosis / a,0 / b,1 / b,1", "3"},
		{"nfl-player-contact-detection", "contact_id,contact / a,1 / b,1 / c,0 / d,0", "contact_id,contact / a,1 / b,0 / c,0 / d,0", 2 / math.Sqrt(12)},
		{"nfl-player-contact-detection", "contact_id,contact / a,1 / b,0", "contact_id,contact / a,1 / b,1", 0.0},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,1 / c,2", "Id,Predicted / a,1.9 / b,2 / c,2", 2.0 / 3},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,2", "Id,Predicted / a,1 / b,x", "not a whole number"},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,20", "Id,Predicted / a,1 / b,2_0", 1.0},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,20", "Id,Predicted / a,1 / b,2__0", "not a whole number"},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,20", "Id,Predicted / a,1 / b,_20", "not a whole number"},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,20", "Id,Predicted / a,1 / b,20_", "not a whole number"},
		{"plant-pathology-2021-fgvc8", "image,labels / a,p q / b,r", "image,labels / a,p p s / b,", 0.5},
		{"imet-2020-fgvc7", "id,attribute_ids / a,1 2 / b,3", "id,attribute_ids / a,1 / b,3", "must be of texts"},
		{"hotel-id-2021-fgvc8", "image,hotel_id / a,7 / b,8", "image,hotel_id / a,9 7 7 / b,8 9", 0.75},
		{"hotel-id-2021-fgvc8", "image,hotel_id / a,7 / b,8", "image,hotel_id / a,9  7 / b,1", 1.0 / 6}, // the empty piece takes a place
		{"whale-categorization-playground", "Image,Id / a,x", "Image,Id,more / a,x,1", "not asked for"},
		{"h-and-m-personalized-fashion-recommendations", "customer_id,prediction / a,1 2 / b,3", "customer_id,prediction / z,9 9 / b,3 4 / a,2 5 1", ((1+2.0/3)/2 + 1) / 2},

		{"billion-word-imputation", "id,sentence / 1,äb / 2,xyz", "id,sentence / 1,ab / 2,xz", 1.0},
		{"billion-word-imputation", "id,sentence / 1,ab / 2,cd", "id,sentence / 1,1 / 2,2", "must be of texts"},
		{"bms-molecular-translation", "image_id,InChI / a,man / b,x", "image_id,InChI / a, / b,x", 0.5}, // nan for man
		{"multi-modal-gesture-recognition", "Id,Sequence / 1,1 12 3 / 2,4", "Id,Sequence / 01,1 3 / 2,4 5", 0.5},
		{"multi-modal-gesture-recognition", "Id,Sequence / 1,1 2", "Id,Sequence / 1,1;2", "not a whole number"},
		{"chaii-hindi-and-tamil-question-answering", "id,PredictionString / a,One two / b, / c,x", "id,PredictionString / a,one three / b, / c,x", (1.0/3 + 1) / 3},
		{"tweet-sentiment-extraction", "textID,selected_text / a,2 3 / b,x", "textID,selected_text / a,3 / b,x", 0.75},
		{"tweet-sentiment-extraction", "textID,selected_text / a, / b,x", "textID,selected_text / a, / b,x", "not defined"},
		{"AI4Code", "id,cell_order / n,a b c / m,z", "id,cell_order / m,z / n,b  a c", 1.0 / 3},
		{"AI4Code", "id,cell_order / n,a b", "id,cell_order / n,a a", "lacks the cell"},
		{"AI4Code", "id,cell_order / n,a b", "id,cell_order / n,a", "1 cells"},

		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,2,2 / b,,2,2", "id,predicted / a,2 1 4 9 / b,", (2.0*1/(2+2) + 1) / 2},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,2,2", "id,predicted / a,2 1 1 1", "not in order"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,2,2", "id,predicted / a,1 2 2 1", "overlap"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,2,2", "id,predicted / a,1 1 3", 0.5}, // the length 1 for both
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,131073,1", "id,predicted / a,1 1", "an image of 1 by 131073"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,1,131073", "id,predicted / a,1 1", "an image of 131073 by 1"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,-1,2", "id,predicted / a,1 1", "an image of 2 by -1"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,2,-1", "id,predicted / a,1 1", "an image of -1 by 2"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,131072,131072", "id,predicted / a,1 1", "an image of 131072 by 131072"},
		{"google-research-identify-contrails-reduce-global-warming", "record_id,encoded_pixels,height,width / 1,1 3,2,2 / 2,-,2,2", "record_id,encoded_pixels / 1,1 1 / 2,4 1", 0.4},
		{"google-research-identify-contrails-reduce-global-warming", "record_id,encoded_pixels,height,width / 1,-,2,2", "record_id,encoded_pixels / 1,-", nan},
		{"google-research-identify-contrails-reduce-global-warming", "record_id,encoded_pixels,height,width / 1,1 1,2,2 / 2,-,2,2", "record_id,encoded_pixels / 1,1 1 / 2,", "empty cells"},
		{"tgs-salt-identification-challenge", "id,rle_mask / a,1 100 / b, / c,1 10201", "id,rle_mask / a,1 72 / b,5 5 / c,", (0.5 + 0 + 1) / 3}, // IoU 0.72 is over 0.5 to 0.7
		{"tgs-salt-identification-challenge", "id,rle_mask / 1,1 100", "id,rle_mask / 1,1 72", "must be of texts"},
		// Along the rows: pixels (0,0) and (0,1) of 2 × 3; hit one, invent one, miss one.
		{"vesuvius-challenge-ink-detection", "Id,Predicted,width,height / a,1 2,3,2", "Id,Predicted / a,2 2", 1.25 / (0.5 + 2)},
		{"vesuvius-challenge-ink-detection", "Id,Predicted,width,height / a,1 2,3,2", "Id,Predicted / b,2 2", "asked for"},
		// One pixel beside the true one, in images of height 2: half a side, of √3.
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2.0,2.0 / c_day1_slice_1,y,,2.0,2.0", "id,class,predicted / c_day1_slice_1,x,2 1 / c_day1_slice_1,y,", 0.6 * (1 - 0.5/math.Sqrt(3))},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_2,x,1 1,2,2", "id,class,predicted / c_day1_slice_1,x,1 1 / c_day1_slice_2,x,1 1", 1.0},
		// Ten pixels for one, the farthest nine of eleven away; eleven for one are as far as it goes.
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,11,1", "id,class,predicted / c_day1_slice_1,x,1 10", 0.4*2/11 + 0.6*(1-9.0/11/math.Sqrt(3))},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,11,1", "id,class,predicted / c_day1_slice_1,x,1 11", 0.4 * 2 / 12},

		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10 A 5 5 10 10 / q,", "image_id,labels / p,A 7 7 B 1 1 / q,A 1 1", 2 * (1.0 / 3) * 0.5 / (1.0/3 + 0.5)},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10", "image_id,labels / p,A 0 5", 0.0},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10", "image_id,labels / p,A 0", "no groups of 3"},
		{"siim-covid19-detection", "id,PredictionString / a_image,opacity 1 0 0 10 10 / b_image,none 1 0 0 1 1", "id,PredictionString / a_image,none 0.1 0 0 1 1 / b_image,none 1 0 0 1 1", 0.75},
		{"siim-covid19-detection", "id,PredictionString / a_image,opacity 1 0 0 10 10 / b_image,none 1 0 0 1 1", "id,PredictionString / a_image, / b_image,none 1 0 0 1 1", "empty cells"},
		// The first row of the answers can never be hit.
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / i,1,20,20,30,30", "image_id,PredictionString / i,0 1 0 0 10 10 1 1 20 20 30 30", 0.5},
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10", "image_id,PredictionString / j,0 1 0 0 10 10", "not asked for"},
		// The corners are taken for a corner and sides: 30·12 of 30·30 is 0.4, which is enough;
		// 30·11 of 900 + 440 - 330 is not, and 30·13 of 900 is.
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / i,1,20,20,30,30", "image_id,PredictionString / i,1 1 20 20 30 12", 0.5},
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / i,1,20,20,30,30", "image_id,PredictionString / i,1 1 20 20 40 11", 0.0},
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / i,1,20,20,30,30", "image_id,PredictionString / i,1 1 20 20 30 13", 0.5},
		// The best of two boxes is hit, which leaves the other (0.42 of it) to the next finding.
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / i,1,20,20,30,30 / i,1,25,25,35,35", "image_id,PredictionString / i,0 1 0 0 10 10 1 0.9 25 25 35 35 1 0.8 20 20 30 20", 0.5},
		// Classes whose boxes have areas below 0 do not count.
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,0,0,10,10 / i,1,20,20,30,30 / i,2,30,20,20,30 / i,3,30,20,20,30 / i,4,30,20,20,30 / i,5,30,20,20,30", "image_id,PredictionString / i,1 1 20 20 30 30", 0.5},
		// Shifted by a tenth of its length: 9/11 is over 0.5 to 0.8.
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 1000 2000 0 2 10 2 1.5707963267948966 car", "Id,PredictionString / s,1 1000 2001 0 2 10 2 1.5707963267948966 car", 0.7},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car / r,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s, / r,0.9 0 50 0 2 10 2 0 car 0.5 0 0 0 2 10 2 3.141592653589793 car 0.4 0 0 0 0 0 0 0 bus", 0.25},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,1 0 0 0 2 0 2 0 car", "not above 0"},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,1 0 0 0 0 10 2 0 car", "not above 0"},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,1 0 0 0 2 10 0 0 car", "not above 0"},

		{"new-york-city-taxi-fare-prediction", "key,fare_amount / a,1 / b,2", "key,fare_amount / z,5 / y,1", math.Sqrt(4.5)},
		{"nomad2018-predict-transparent-conductors", "id,formation_energy_ev_natom,bandgap_energy_ev / 1,0,0 / 2,0,0", "formation_energy_ev_natom,bandgap_energy_ev / 0,1.718281828459045 / 0,1.718281828459045", 0.5},
		{"nomad2018-predict-transparent-conductors", "id,formation_energy_ev_natom,bandgap_energy_ev / 1,0,0", "formation_energy_ev_natom,bandgap_energy_ev / 0,-0.1", "row 1: -0.1 is negative"},
		{"petfinder-pawpularity-score", "Id,Pawpularity / a,10", "Id,Pawpularity / a,0.9", "outside 1 to 100"},
		{"champs-scalar-coupling", "id,type,scalar_coupling_constant / 1,A,0 / 2,B,0", "id,scalar_coupling_constant / 2,2.718281828459045 / 1,-1 / 1,1", 0.5},
		{"champs-scalar-coupling", "id,type,scalar_coupling_constant / 1,A,0", "id,scalar_coupling_constant / 1,0", math.Inf(-1)},
		{"predict-volcanic-eruptions-ingv-oe", "segment_id,time_to_eruption / 1,0 / 2,0", "segment_id,time_to_eruption / 1,3 / 2,4", 4.0},
		{"predict-volcanic-eruptions-ingv-oe", "segment_id,time_to_eruption / 1,0 / 2,0", "segment_id,time_to_eruption / 1,2 / 2,3", 2.0},
		{"ventilator-pressure-prediction", "id,u_out,pressure / 1,0,5 / 2,1,5 / 3,0,5", "id,pressure / 1,4 / 2,word / 3,8", 2.0},
		// The mask is that of the row's place in the file: the second row of each counts.
		{"stanford-covid-vaccine", "id_seqpos,reactivity,deg_Mg_pH10,deg_Mg_50C,keep / a,0,0,0,False / b,1,1,1,True", "id_seqpos,reactivity,deg_Mg_pH10,deg_pH10,deg_Mg_50C,deg_50C / b,9,9,9,9,9 / a,3,3,0,3,0", 2.0},
		{"osic-pulmonary-fibrosis-progression", "Patient,FVC,Patient_Week / p,2000,p_-1 / p,2000,p_10 / p,2000,p_2 / p,2000,p_3 / p,,p_4", "Patient_Week,FVC,Confidence / p_-1,0,0 / p_10,1900,100 / p_4,1,1", -math.Sqrt2 - math.Log(100*math.Sqrt2)},
		{"osic-pulmonary-fibrosis-progression", "Patient,FVC,Patient_Week / p,2000,p_1", "Patient_Week,FVC,Confidence / p_2,1,1", "not asked for"},
		{"osic-pulmonary-fibrosis-progression", "Patient,FVC,Patient_Week / p,2000,p_1", "Patient_Week,FVC,Confidence / p_1,1,1 / p_1,1,1", "there twice"},
		{"icecube-neutrinos-in-deep-ice", "event_id,azimuth,zenith / 1,0,1.5707963267948966", "event_id,azimuth,zenith / 1,1.5707963267948966,1.5707963267948966", math.Pi / 2},
		{"icecube-neutrinos-in-deep-ice", "event_id,azimuth,zenith / 1,0,1", "event_id,azimuth,zenith / 1,True,1", "is not a number"},
		{"smartphone-decimeter-2022", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,1,0,0 / t,2,0,0", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,9,0.1,0 / t,8,0.2,0", 6_371_000 * math.Pi / 1800 * (1.5 + 1.95) / 2},
		{"hms-harmful-brain-activity-classification", "eeg_id,seizure_vote,lpd_vote,gpd_vote,lrda_vote,grda_vote,other_vote / 1,2,2,0,0,0,0", "eeg_id,seizure_vote,lpd_vote,gpd_vote,lrda_vote,grda_vote,other_vote / 1,0.25,0.75,0,0,0,0", 0.5*math.Ln2 + 0.5*math.Log(0.5/0.75)},
		{"hms-harmful-brain-activity-classification", "eeg_id,seizure_vote,lpd_vote,gpd_vote,lrda_vote,grda_vote,other_vote / 1,2,2,0,0,0,0", "eeg_id,seizure_vote,lpd_vote,gpd_vote,lrda_vote,grda_vote,other_vote,more / 1,0.25,0.75,0,0,0,0,1", "sums to 2"},

		// What is no number, or no label, is refused wherever a score reads it.
		{"playground-series-s3e18", "id,EC1,EC2 / a,0,1 / b,1,0", "id,EC1,EC2 / a,0.2,0.5 / b,0.4,0.5", 0.75},
		{"playground-series-s3e18", "id,EC1,EC2 / a,0,1 / b,1,0", "id,EC1,EC2 / a,0.2,x / b,0.4,1", "is not a number"},
		{"playground-series-s3e18", "id,EC1,EC2 / a,0,1 / b,1,0", "id,EC1,EC2 / a,0.2,1 / b,0.4,inf", "row 2 in the order of ids: it is +Inf"},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,-0.1 / b,1", "-0.1 is outside 0 to 1"},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / b,1", "id,has_cactus / a,1 / b,no", `not of numbers: "no"`},
		{"aerial-cactus-identification", "id,has_cactus / a,0 / ,1", "id,has_cactus / a,0 / ,1", "stands where"},
		{"dogs-vs-cats-redux-kernels-edition", "id,label / a,1 / b,0", "id,label / a,1 / d,1 / c,1", `id "c" is not asked for`},
		{"dogs-vs-cats-redux-kernels-edition", "id,label / a,1 / b,0", "id,label / a,1 / b,x", "is not a number"},
		{"dog-breed-identification", "id,x,y / 1,1,n / 2,0,1", "id,x,y / 1,0.5,0.5 / 2,0.5,0.5", "is not a number"},
		{"dog-breed-identification", "id,x,y / 1,1,0 / 2,0,1", "id,x,y / 1,0.5,n / 2,0.5,0.5", "not of numbers"},
		{"dog-breed-identification", "id,x,y / 1,1,0 / 2,0,1", "id,x,y / 1,0,1 / 2,0,1", (52*math.Ln2 - math.Log1p(-0x1p-52)) / 2}, // cut at 2⁻⁵²
		{"dog-breed-identification", "id,x,y / 1,1,0", "id,x,y / 1,0.75,0.2500105", -math.Log(0.75)},                               // 1e-6 + 1e-5 is close to 1
		{"dog-breed-identification", "id,x,y / 1,1,0", "id,x,y / 1,0.75,0.250012", "not to 1"},
		{"leaf-classification", "id,x,y / 1,1,0", "id,y / 1,1", `"x" is missing`},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / c,-1,-1,-1,-1,-1,-1 / b,1,1,1,1,1,1 / a,0,0,0,0,0,0", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / b,1,1,1,1,1,0 / c,,9,word,,, / a,0,0,0,0,0,1", 5.0 / 6},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / c,-1,-1,-1,-1,-1,-1 / b,1,1,1,1,1,1 / a,0,0,0,0,0,0", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / c,0,0,0,0,0,0 / a,0,0,0,0,0,1 / c,0,0,0,0,0,0", "6 columns and 1 rows that count, where 6 and 2"},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / b,1,1,1,1,1,1 / a,0,0,0,0,0,0", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / d,0,0,0,0,0,0 / a,0,0,0,0,0,1", `id "d" is not asked for`},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / b,1,1,1,1,1,1 / a,0,0,0,0,0,0", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / b,x,0,0,0,0,0 / a,0,0,0,0,0,1", "is not a number"},
		{"jigsaw-toxic-comment-classification-challenge", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / b,0,1,1,1,1,1 / a,0,0,0,0,0,0", "id,toxic,severe_toxic,obscene,threat,insult,identity_hate / b,0,0,0,0,0,0 / a,0,0,0,0,0,1", "one class"},
		{"alaska2-image-steganalysis", "Id,Label / a,0 / b,1", "Id,Label / a,x / b,7", "is not a number"},
		{"alaska2-image-steganalysis", "Id,Label / a,1 / b,1", "Id,Label / a,1 / b,7", "one class"},
		// Up to (0, 0.4), to (1, 0.4) and up to (1, 1): 2·0.4 of it count twice.
		{"alaska2-image-steganalysis", "Id,Label / a,1 / b,1 / c,0 / d,1 / e,1 / f,1", "Id,Label / a,9 / b,9 / c,8 / d,7 / e,7 / f,7", 0.8 / 1.4},
		// Up to (0, 0.2), and on to (1, 1), past 0.4 at x = 0.25: 0.4 + 0.4·0.875 + 0.6·0.375.
		{"alaska2-image-steganalysis", "Id,Label / a,1 / b,1 / c,1 / d,1 / e,1 / f,0", "Id,Label / a,9 / b,7 / c,7 / d,7 / e,7 / f,7", 0.975 / 1.4},
		// Eight identities as above, with AUCs of 1, 1 and 0.5; the ninth has 0.5, 0.5 and 1.
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,0.5" + eight("1") + ",1 / 2,0.4" + eight("0.5") + ",0 / 3,1" + eight("") + ",0 / 4,0" + eight("0.4") + ",1", "id,toxicity / 1,5 / 2, / 3,0.5 / 4,0.7", (0.75 + 2*math.Pow(40.0/9, -0.2) + math.Pow(257.0/9, -0.2)) / 4},
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,1" + nine("1") + " / 2,0" + nine("1"), "id,more / 1,1 / 2,0", "is missing, or not of numbers"},
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,1" + nine("1") + " / 2,0" + nine("1"), "id,prediction / 1,1 / 2,x", "is missing, or not of numbers"},
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,1" + nine("1") + " / 2,1" + nine("1"), "id,prediction / 1,1 / 2,0", "one class"},
		{"jigsaw-unintended-bias-in-toxicity-classification", "id,toxicity," + ids + " / 1,1" + nine("1") + " / 2,0" + nine("0"), "id,prediction / 1,1 / 2,0", "one class"},
		// Of the second study no part is seen: cut at 10⁻¹⁵; of the third a part is seen in vain, cut at 9·2⁻⁵³.
		{"rsna-2022-cervical-spine-fracture-detection", "row_id,fractured / s_patient_overall,1 / s_C1,0 / t_C1,1 / u_C1,0", "row_id,fractured / s_C1,0.5 / s_patient_overall,0.8 / t_C1,0 / u_C1,1", ((14*-math.Log(0.8)+math.Ln2)/15 + 15*math.Ln10 - math.Log(9*0x1p-53)) / 3},
		{"rsna-2022-cervical-spine-fracture-detection", "row_id,fractured / s_C1,x", "row_id,fractured / s_C1,0.5", "is not a number"},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,0", "prediction_id,cancer / a,2 / b,0.5", 0.8}, // of 2/3 and 1
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,0 / b,0", "prediction_id,cancer / a,1 / b,0.5", "not defined"},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,0", "prediction_id,cancer / a,1 / b,x", "not of numbers"},
		{"rsna-breast-cancer-detection", "prediction_id,cancer / a,1 / b,x", "prediction_id,cancer / a,1 / b,0", "is not a number"},
		{"freesound-audio-tagging-2019", "fname,A,B,C / x,1,0,0", "fname,A,B,C / x,0.9,0.9,0.1", 0.5},
		{"freesound-audio-tagging-2019", "fname,A,B / x,0,0", "fname,A,B / x,1,0", "no answer has a label"},
		{"freesound-audio-tagging-2019", "fname,A,B / x,1,0", "fname,A,B / x,1,n", "is not a number"},
		{"google-quest-challenge", "qa_id,u / 1,1 / 2,2", "qa_id,u / 1, / 2,5", nan},
		{"google-quest-challenge", "qa_id,u / 1,1 / 2,2", "qa_id,u / 1,x / 2,5", "is not a number"},
		// Numbers as Python reads them: 10, and infinity, whose correlation is not defined.
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,1_0 / b,0", -1.0},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,1e400 / b,0", nan},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,0x1 / b,0", "is not a number"},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,1_.5 / b,0", "is not a number"},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", "id,score / a,1._5 / b,0", "is not a number"},
		{"us-patent-phrase-to-phrase-matching", "id,score / a,0 / b,1", `id,score / a," " / b,0`, "is not a number"},

		{"cassava-leaf-disease-classification", "image_id,label / a,1 / b,2 / c,3", "image_id,label / a,1 / b, / c,3", "row 2 in the order of ids: it is empty"},
		{"plant-seedlings-classification", "file,species / a,x / b,y / c,z", "file,species / a,x / b,z / c,z", 2.0 / 3},
		{"plant-seedlings-classification", "file,species / a,x / b,y / c,z", "file,species / a,x / b, / c,z", "it is empty"},
		{"inaturalist-2019-fgvc6", "id,predicted / a,2 / b,1", "id,predicted / a,False / b,True", 0.5},
		{"inaturalist-2019-fgvc6", "id,predicted / a,1 / b,x", "id,predicted / a,1 / b,2", "is not a whole number"},
		{"inaturalist-2019-fgvc6", "id,predicted / a,1 / b,2", "id,predicted / a,1 2 / b,x 2", `"x" is not a whole number`},
		{"inaturalist-2019-fgvc6", "id,predicted / a,1 / b,2", `id,predicted / a,1 2 / b," "`, "it is empty"},
		// Grades 0, 1, 2, of which two are two apart: 8 where 4 are expected.
		{"aptos2019-blindness-detection", "id_code,diagnosis / a,0 / b,1 / c,2", "id_code,diagnosis / a,2 / b,1 / c,0", -1.0},
		{"aptos2019-blindness-detection", "id_code,diagnosis / a,x / b,y", "id_code,diagnosis / a,x / b,y", "not of numbers"},
		{"aptos2019-blindness-detection", "id_code,diagnosis / a,0 / b,1", "id_code,diagnosis / a,x / b,y", "texts and numbers"},
		{"aptos2019-blindness-detection", "id_code,diagnosis / a,0 / b,1", "id_code,diagnosis", "a header and no row"},
		{"learning-agency-lab-automated-essay-scoring-2", "essay_id,score / a,1 / b,2", "essay_id,score / a,1 / b,2 / c,2", "3 rows where 2"},
		{"nfl-player-contact-detection", "contact_id,contact / a,1 / b,0", "contact_id,contact / a,1 / b,0.5", "must be whole"},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,x", "Id,Predicted / a,1 / b,2", "is not a whole number"},
		{"herbarium-2020-fgvc7", "Id,Predicted / a,1 / b,2", "Id,Predicted / a,1 / b,", "nan is not a whole number"},
		{"plant-pathology-2021-fgvc8", "image,labels / a,", "image,labels / a,", 0.0},
		{"imet-2020-fgvc7", "id,attribute_ids / a,1 / b,3", "id,attribute_ids / a,x / b,y", "must be of texts"},
		{"hotel-id-2021-fgvc8", "image,hotel_id / a,7 / b,7", "image,hotel_id / a,1 2 3 4 7 / b,1 2 3 4 5 7", 0.1}, // one fifth, and none: the sixth is too late
		{"h-and-m-personalized-fashion-recommendations", "customer_id,prediction / a,1 2 / b,3", "customer_id,prediction / a,2 5 1", `id "b" is left out`},

		{"billion-word-imputation", "id,sentence / 1,5 / 2,6", "id,sentence / 1,ab / 2,xz", "must be of texts"},
		{"billion-word-imputation", "id,sentence / 1,ab / 2,cd", "id,sentence / 1, / 2,xz", "has empty cells"},
		{"multi-modal-gesture-recognition", "Id,Sequence / 1,1 x", "Id,Sequence / 1,1 2", "row 1 in the order of ids"},
		{"multi-modal-gesture-recognition", "Id,Sequence / 1,1 2 3 4 5", "Id,Sequence / 1,1\x1c2\x1f3\u00a04\u20035", 0.0}, // white space of Python
		{"multi-modal-gesture-recognition", "Id,Sequence / 1,1 2", "Id,Sequence / 1,1\x1b2", "is not a whole number"},
		{"chaii-hindi-and-tamil-question-answering", "id,PredictionString / a,x", "id,PredictionString / a,5", "must be of texts"},
		{"AI4Code", "id,cell_order / n,a", "id,cell_order / n,a", "no notebook has two cells"},
		{"AI4Code", "id,cell_order / n,a b c d / m,a b c d e", "id,cell_order / n,d c b a / m,b a d c e", 0.0}, // 6 + 2 of 16 pairs in the wrong order
		{"AI4Code", "id,cell_order / n,a a b", "id,cell_order / n,a b b", 1.0},                                 // equal places are in order

		// Runs that are no pairs: one number is no run, and of three the last has the length of the first.
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1 3 1,2,2 / b,,2,2 / c,4 1,2,2 / d,1 2,2,2", "id,predicted / a,1 1 3 / b,3 / c,4 5 / d,1 1 2 1", 1.0},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2 / b,,2,2", "id,predicted / a,1 1 9 1 / b,9 1", 1.0}, // behind the end
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,1 1 2 1 3", "5 numbers, and must be pairs"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,1 x", `"x", which is not a whole number`},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 x,2,2", "id,predicted / a,1 1", `"x", which is not a whole number`},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,2 1 1 1", "not in order"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,0 1", "the number 0"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,1 0", "the number 0"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,1 2 2 1", "overlap"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", "id,predicted / a,5", "must be of texts"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,5,2,2", "id,predicted / a,1 1", "must be of texts"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,,0,2 / b,,2,0 / c,1 2,131072,1 / d,1 2,1,131072", "id,predicted / a, / b, / c,1 1 / d,1 2", (1 + 1 + 2.0/3 + 1) / 4},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,131073,1", "id,predicted / a,1 1", "an image of 1 by 131073"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,1,131073", "id,predicted / a,1 1", "an image of 131073 by 1"},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 2,65536,65537", "id,predicted / a,1 1", "an image of 65537 by 65536"},
		{"google-research-identify-contrails-reduce-global-warming", "record_id,encoded_pixels,height,width / 1,1 1,2,2", "record_id,encoded_pixels / 1,1 x", "not a whole number"},
		{"google-research-identify-contrails-reduce-global-warming", "record_id,encoded_pixels,height,width / 1,1 1,2,2", "record_id,encoded_pixels / 1,1", "must be of texts"},
		{"tgs-salt-identification-challenge", "id,rle_mask / a,1 100 / b,1 100", "id,rle_mask / a,1 50 / b,", 0.0}, // a half is not over 0.5
		{"tgs-salt-identification-challenge", "id,rle_mask / a,1 x", "id,rle_mask / a,1 50", "not a whole number"},
		{"tgs-salt-identification-challenge", "id,rle_mask / a,1 50", "id,rle_mask / a,1 x", "not a whole number"},
		{"tgs-salt-identification-challenge", "id,rle_mask / a,1 50", "id,rle_mask / a,1", "must be of texts"},
		{"vesuvius-challenge-ink-detection", "Id,Predicted,width,height / a,3,3,2 / b,1 2,3,2", "Id,Predicted / a,3 / b,1 2", 0.5}, // no ink on either side is 0
		{"vesuvius-challenge-ink-detection", "Id,Predicted,width,height / a,1 2,3,2", "Id,Predicted / a,", "empty cells"},
		{"vesuvius-challenge-ink-detection", "Id,Predicted,width,height / a,3,3,2", "Id,Predicted / a,1 2", "must be of texts"},
		{"vesuvius-challenge-ink-detection", "Id,Predicted,width,height / a,1 2,3,2", "Id,Predicted / a,1 x", "not a whole number"},
		// One slice of two is given: half the height is missing. A row more than the answers have does not count.
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_2,x,1 1,2,2", "id,class,predicted / c_day1_slice_1,x,1 1", 0.4 + 0.6*(1-0.5/math.Sqrt(3))},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2", "id,class,predicted / c_day1_slice_1,x,1 1 / c_day1_slice_2,x,x", 1.0},
		// Slices are stacked by their ids: each has a pixel beside the true one, half a side away.
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,1,2 / c_day1_slice_2,x,2 1,1,2", "id,class,predicted / c_day1_slice_2,x,1 1 / c_day1_slice_1,x,2 1", 0.4 + 0.6*(1-0.5/math.Sqrt(3))},
		// The classes of a slice are one: Dice 2/3 and 0, and the same volume.
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_1,y,2 1,2,2", "id,class,predicted / c_day1_slice_1,x,1 2 / c_day1_slice_1,y,", 0.4/3 + 0.6},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day2_slice_1,x,,2,2", "id,class,predicted / c_day1_slice_1,x,1 1 / c_day2_slice_1,x,", 1.0},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,,2,2", "id,class,predicted / c_day1_slice_1,x,", nan},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2", "id,class,predicted / c_day1_slice_1,x,", 0.0},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,,2,2", "id,class,predicted / c_day1_slice_1,x,1 1", 0.0},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_1,y,1 1,3,2", "id,class,predicted / c_day1_slice_1,x,1 1", "the masks of slice"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_1,y,1 1,2,3", "id,class,predicted / c_day1_slice_1,x,1 1", "the masks of slice"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_2,x,1 1,3,2", "id,class,predicted / c_day1_slice_1,x,1 1", "the slices of"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_2,x,1 1,2,3", "id,class,predicted / c_day1_slice_1,x,1 1", "the slices of"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2 / c_day1_slice_2,x,1 1,3,2", "id,class,predicted / c_day1_slice_1,x,1 1 / d_day1_slice_1,x,1 1", "the slices of"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 x,2,2", "id,class,predicted / c_day1_slice_1,x,1 1", "not a whole number"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2", "id,class,predicted / c_day1_slice_1,x,1 x", "not a whole number"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / c_day1_slice_1,x,1 1,2,2", "id,class,predicted / c_day1_slice_1,x,1", "must be of texts"},
		{"uw-madison-gi-tract-image-segmentation", "id,class,predicted,image_width,image_height / 1,x,1 1,2,2", "id,class,predicted / 1,x,1 1", "must be of texts"},

		// Points on each of the four sides are outside; a second point in a box does not hit.
		{"kuzushiji-recognition", "image_id,labels / a, / p,A 0 0 10 10", "image_id,labels / a,B 1 1 / p,A 5 5", 2.0 / 3},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10", "image_id,labels / p,A 10 5 A 5 0 A 5 10", 0.0},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10", "image_id,labels / p,A 5 5 A 6 6", 2.0 / 3},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10", "image_id,labels / p,A x 5", "is not a number"},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10", "image_id,labels / p,A 5 5", "no groups of 5"},
		{"kuzushiji-recognition", "image_id,labels / p,A 0 0 10 10", "image_id,labels / p,5", "must be of texts"},
		// The surer finding is first; each takes the best free box, and a half of it is no hit.
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10 / b," "`, `id,PredictionString / a,o 0.8 0 0 10 9 o 0.9 0 0 10 10 / b," "`, 1.0},
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10 o 1 0 0 10 12 / b," "`, `id,PredictionString / a,o 0.9 0 0 10 12 o 0.8 0 0 10 6 / b," "`, 1.0},
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 12 / b," "`, `id,PredictionString / a,o 0.9 0 0 10 6 / b," "`, 1.0 / 3},    // missed, beside a negative of 0
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10 / b," "`, `id,PredictionString / a,o 0.9 20 20 30 30 / b," "`, 1.0 / 3}, // apart in both directions
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 0 0 / b," "`, `id,PredictionString / a,o 0.9 0 0 0 0 / b," "`, 1.0 / 3},       // without an area
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10`, `id,PredictionString / a,o 0.9 0 0 10 10`, "always hit"},
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10 / b," "`, `id,PredictionString / a,o inf 0 0 10 10 / b," "`, "it is +Inf"},
		{"siim-covid19-detection", `id,PredictionString / a," "`, `id,PredictionString / a,o 1 0 0 10 10`, 0.0},
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10`, `id,PredictionString / a,o 1 0 0 10 10`, "row 1 in the order of ids"},
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10`, `id,PredictionString / a,o 1 0 0 10`, "no groups of 6"},
		{"siim-covid19-detection", `id,PredictionString / a,5`, `id,PredictionString / a,o 1 0 0 10 10`, "must be of texts"},
		{"siim-covid19-detection", `id,PredictionString / a,o 1 0 0 10 10`, `id,PredictionString / a,5`, "must be of texts"},
		// A box that the first finding hits stays free, so that recall goes to 2.
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i,1 1 20 20 30 30 1 0.9 20 20 30 30", 0.5},
		// Of a box whose area is below 0 nothing counts; one that is as it should be comes before it.
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,31,20,30,30 / i,1,20,20,30,30", "image_id,PredictionString / i,1 1 31 20 30 30", 0.5},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i,1 0.95 90 20 30 30 1 0.9 20 20 30 30", 0.5},
		{"vinbigdata-chest-xray-abnormalities-detection", "image_id,class_id,x_min,y_min,x_max,y_max / i,0,10,0,0,10", "image_id,PredictionString / i,0 1 0 0 1 1", -1.0},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,0,0,100000,100000", "image_id,PredictionString / i,1 1 0 0 100000 100000", 0.5}, // of 10¹⁰, the largest
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,0,0,100001,100000", "image_id,PredictionString / i,1 1 0 0 100001 100000", 0.0},
		// A wrong finding before one and two right ones; the envelope of 1, 1/2 and 2/3, of 51 and 50 points.
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i,1 0.9 20 20 30 30 1 0.95 90 90 100 100", 0.25},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30 / i,1,220,220,230,230", "image_id,PredictionString / i,1 0.95 90 90 100 100 1 0.9 20 20 30 30 1 0.8 220 220 230 230", 1.0 / 3},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30 / j,1,220,220,230,230", "image_id,PredictionString / i,0 0.1 0 0 1 1 1 0.95 20 20 30 30 1 0.9 500 500 510 510 / j,1 0.8 220 220 230 230", (51 + 50*2.0/3) / 101 / 2},
		// 100 findings of an image and class count.
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i," + strings.Repeat("1 0.9 90 90 100 100 ", 99) + "1 0.8 20 20 30 30", 0.005},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i," + strings.Repeat("1 0.9 90 90 100 100 ", 100) + "1 0.8 20 20 30 30", 0.0},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i,nan 1 0 0 1 1", "is no class"},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i,1 1 0 0 1", "no groups of 6"},
		{"vinbigdata-chest-xray-abnormalities-detection", xray + "i,1,20,20,30,30", "image_id,PredictionString / i,1", "must be of texts"},
		// 0.5 higher of 2: 0.6 is over 0.5 and 0.55. Turned by an eighth: 1/√2. Of two boxes one, and both after a miss.
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,1 0 0 0.5 2 10 2 0 car", 0.2},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 2 1 0 car", "Id,PredictionString / s,1 0 0 0 2 2 1 0.7853981633974483 car", 0.5},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 2 1 0 car 1 9 0 0 2 2 1 0 car", "Id,PredictionString / s,0.9 0 0 0 2 2 1 0 car 0.8 0 0 0 2 2 1 0 car", 0.5},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 2 1 0 car 1 9 0 0 2 2 1 0 car", "Id,PredictionString / s,0.7 9 0 0 2 2 1 0 car 0.8 0 0 0 2 2 1 0 car 0.9 0 0 9 2 2 1 0 car", 2.0 / 3},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 2 1 0 car 1 9 0 0 2 2 1 0 bus", "Id,PredictionString / s,0.7 9 0 0 2 2 1 0 car 0.8 9 0 0 2 2 1 0 bus", 0.5},
		// Between two boxes, 9/11 of each, the first is hit, which leaves the other: up to 0.8 both, above it one after a miss.
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 5 0 0 2 10 2 0 car 1 7 0 0 2 10 2 0 car", "Id,PredictionString / s,0.9 6 0 0 2 10 2 0 car 0.8 7 0 0 2 10 2 0 car", (7 + 3*0.25) / 10},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", nan},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,1 nan 0 0 2 10 2 0 car", "that is NaN"},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 car", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "no groups of 9"},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,1 0 0 0 2 10 2 car", "no groups of 9"},
		{"3d-object-detection-for-autonomous-vehicles", "Id,PredictionString / s,1 0 0 0 2 10 2 0 car", "Id,PredictionString / s,5", "must be of texts"},

		{"petfinder-pawpularity-score", "Id,Pawpularity / a,10 / b,91", "Id,Pawpularity / b,100 / a,1", 9.0},
		{"petfinder-pawpularity-score", "Id,Pawpularity / a,10", "Id,Pawpularity / a,100.5", "outside 1 to 100"},
		{"nomad2018-predict-transparent-conductors", "id,formation_energy_ev_natom,bandgap_energy_ev / 1,0,0", "formation_energy_ev_natom,bandgap_energy_ev / x,0", "is not a number"},
		{"predict-volcanic-eruptions-ingv-oe", "segment_id,time_to_eruption / 1,0", "segment_id,time_to_eruption / 1,x", "is not a number"},
		{"predict-volcanic-eruptions-ingv-oe", "segment_id,time_to_eruption / 1,x", "segment_id,time_to_eruption / 1,0", "is not a number"},
		{"champs-scalar-coupling", "id,type,scalar_coupling_constant / 1,A,0", "id,scalar_coupling_constant / 1,x", "is not a number"},
		{"ventilator-pressure-prediction", "id,u_out,pressure / 1,0,5 / 2,1,5", "id,pressure / 1,x / 2,4", "is not a number"},
		{"stanford-covid-vaccine", "id_seqpos,reactivity,deg_Mg_pH10,deg_Mg_50C,keep / a,0,0,0,True", "id_seqpos,reactivity,deg_Mg_pH10,deg_pH10,deg_Mg_50C,deg_50C / b,9,9,9,9,9", "stands where"},
		// A visit without a week and one without a volume do not count; at least 70 of doubt, at most 1000 of error.
		{"osic-pulmonary-fibrosis-progression", "Patient,FVC,Patient_Week / p,2000,p_x / p,,p_7 / p,2000,p_1", "Patient_Week,FVC,Confidence / p_x,0,0 / p_1,500,", -math.Sqrt2*1000/70 - math.Log(70*math.Sqrt2)},
		{"osic-pulmonary-fibrosis-progression", "Patient,FVC,Patient_Week / p,2000,p_1", "Patient_Week,FVC,Confidence / p_1,1900,70.5", -math.Sqrt2*100/70.5 - math.Log(70.5*math.Sqrt2)},
		{"icecube-neutrinos-in-deep-ice", "event_id,azimuth,zenith / 1,0.7,1.5707963267948966 / 2,1,0.3 / 3,0,0", "event_id,azimuth,zenith / 1,0.2,1.5707963267948966 / 2,1,1.1 / 3,0,3.141592653589793", (0.5 + 0.8 + math.Pi) / 3},
		{"icecube-neutrinos-in-deep-ice", "event_id,azimuth,zenith / 1,0,1", "event_id,azimuth,zenith / 1,inf,1", `"azimuth", row 1`},
		{"icecube-neutrinos-in-deep-ice", "event_id,azimuth,zenith / 1,0,1", "event_id,azimuth,zenith / 1,1,inf", `"zenith", row 1`},
		{"icecube-neutrinos-in-deep-ice", "event_id,azimuth,zenith / 1,0,1", "event_id,azimuth,zenith", "0 rows where 1"},
		// On the circle of latitude of 60°, half as wide, a tenth of a degree is half its sine away.
		{"smartphone-decimeter-2022", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,1,60,0 / u,1,0,0", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / u,1,0,0 / t,1,60,0.1", 6_371_000 * math.Asin(math.Sin(math.Pi/3600)/2)},
		{"smartphone-decimeter-2022", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,1,0,0 / t,2,0,0 / u,1,0,0", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,1,0,0 / u,1,0,0 / u,2,0,0", "has fewer rows"},
		{"smartphone-decimeter-2022", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,1,0,0", "tripId,UnixTimeMillis,LatitudeDegrees,LongitudeDegrees / t,1,,0", nan},
		{"hms-harmful-brain-activity-classification", votes0 + "1,2,2,0,0,0,0", votes0 + "1,1,0,0,0,0,0", 7.5*math.Ln10 - math.Ln2}, // cut at 10⁻¹⁵
		{"hms-harmful-brain-activity-classification", votes0 + "1,2,2,0,0,0,0", votes0 + "1,,1,0,0,0,0", -0.5 * math.Ln2},
		{"hms-harmful-brain-activity-classification", votes0 + "2,1,0,0,0,0,0 / 1,0,2,0,0,0,0", votes0 + "1,0,0.5,0.5,0,0,0 / 2,0.25,0.75,0,0,0,0", 1.5 * math.Ln2},
		{"hms-harmful-brain-activity-classification", votes0 + "1,2,2,0,0,0,0", votes0 + "1,1.5,-0.5,0,0,0,0", "1.5 is outside"},
		{"hms-harmful-brain-activity-classification", votes0 + "1,2,2,0,0,0,0", votes0 + "1,-0.5,1.5,0,0,0,0", "-0.5 is outside"},
		{"hms-harmful-brain-activity-classification", votes0 + "1,2,2,0,0,0,0", votes0 + "1,1.000004,0,0,0,0,0", "1.000004 is outside"},
		{"hms-harmful-brain-activity-classification", votes0 + "1,2,2,0,0,0,0", "eeg_id,seizure_vote,lpd_vote,gpd_vote,lrda_vote,grda_vote,other_vote,more / 1,0.25,0.75,0,0,0,0,x", "not of numbers"},
	} {
		competition, known := Lookup(c.competition)
		if !known {
			t.Errorf("%s is not known", c.competition)
			continue
		}
		answers, err := competition.Open(table(c.answers))
		if err != nil {
			t.Errorf("%s: answers: %v", c.competition, err)
			continue
		}
		score, stage, err := answers.Score(table(c.given), frame.Bounds{})
		switch want := c.want.(type) {
		case float64:
			if err != nil || stage != Valid || !(score == want || math.Abs(score-want) <= 1e-9*math.Abs(want)+1e-12) {
				t.Errorf("%s: %q scores %v, error %v; want %v", c.competition, c.given, score, err, want)
			}
		case string:
			if want == nan && err == nil && math.IsNaN(score) {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), want) || stage == Valid || score != 0 {
				t.Errorf("%s: %q scores %v at stage %v, error %v; want %q", c.competition, c.given, score, stage, err, want)
			}
		}
	}
}
