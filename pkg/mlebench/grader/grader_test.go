package grader

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
	nine := func(v string) string { return strings.Repeat(","+v, 9) }
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
		{"nomad2018-predict-transparent-conductors", "id,formation_energy_ev_natom,bandgap_energy_ev / 1,0,0", "formation_energy_ev_natom,bandgap_energy_ev / 0,-0.1", "negative"},
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
			if err == nil || !strings.Contains(err.Error(), want) || stage == Valid {
				t.Errorf("%s: %q scores %v at stage %v, error %v; want %q", c.competition, c.given, score, stage, err, want)
			}
		}
	}
}

// The answers are lines of JSON, and the first annotation counts.
func TestQuestions(t *testing.T) {
	t.Parallel()
	competition, _ := Lookup("tensorflow2-question-answering")
	answers, err := competition.Open([]byte(`{"example_id":"7","annotations":[{"yes_no_answer":"NONE","long_answer":{"start_token":3,"end_token":9},"short_answers":[{"start_token":4,"end_token":5},{"start_token":6,"end_token":7}]},{"yes_no_answer":"YES"}]}
{"example_id":"-8","annotations":[{"yes_no_answer":"NO","long_answer":{"start_token":-1,"end_token":-1},"short_answers":[]}]}
`))
	if err != nil || answers.Rows() != 4 {
		t.Fatalf("%v", err)
	}
	for given, want := range map[string]any{
		"7_long,3:9 / 7_short, 06 : 7 / -8_long, / -8_short,NO": 1.0,
		"7_long,3:8 / 7_short,YES / -8_long,1:2 / -8_short,":    0.0,
		"7_long,3:9 / 7_short,4 / -8_long, / -8_short,NO":       "neither a span",
		"7_long,3:9 / 7_short,4:x / -8_long, / -8_short,NO":     "no span",
		"7_long,3:9 / 7_short,4:5 / -8_long, / -8_long,NO":      "twice",
		"7_long,3:9 / 7_short,4:5 / -8_long, / 9_short,NO":      `lacks id "-8_short"`,
		"7_long,3:9": "1 rows where 4",
	} {
		score, _, err := answers.Score(table("example_id,PredictionString / "+given), frame.Bounds{})
		if text, refused := want.(string); refused && (err == nil || !strings.Contains(err.Error(), text)) || !refused && (err != nil || score != want) {
			t.Errorf("%q: %v, %v; want %v", given, score, err, want)
		}
	}
	for _, bad := range []string{`{"example_id":7}`, `{"example_id":"7"}`, `{`} {
		if _, err := competition.Open([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// The splits of MLE-bench have 22, 38, 15 and 7 competitions; each has what a task
// needs, and none is there twice.
func TestCompetitions(t *testing.T) {
	t.Parallel()
	count, seen := map[Split]int{}, map[string]bool{}
	for _, c := range All() {
		count[c.Split]++
		if seen[c.ID] || c.Metric == "" || c.Modality == "" || c.AnswersFile == "" || c.SampleFile == "" || c.LowerIsBetter && c.Best() > 0 {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
		if found, known := Lookup(c.ID); !known || found != c {
			t.Errorf("%s is not found", c.ID)
		}
	}
	if count[Low] != 22 || count[Medium] != 38 || count[High] != 15 || count[Dev] != 7 {
		t.Errorf("%v", count)
	}
	if _, known := Lookup("titanic"); known {
		t.Error("titanic is known")
	}
}

// Rows and columns of a submission may come in any order where ids are compared, and
// no file makes a grader panic.
func TestOrderAndNonsense(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		competition := rapid.SampledFrom(All()).Draw(t, "competition")
		cell := rapid.SampledFrom([]string{"", "a", "1", "0.5", "1 2", "1 2 1", "-1", "nan", "True", "a:b", "1e400", `"`, "x 1 0 0 1 1", "1 0 0 0 1 1 1 0 car"})
		columns := append([]string{competition.id}, competition.columns...)
		if columns = slices.Concat(columns, competition.numbers, competition.others); competition.columns == nil {
			columns = append(columns, "class", "another")
		}
		file := func(name string, columns []string) string {
			var b strings.Builder
			b.WriteString(strings.Join(columns, ",") + "\n")
			for range rapid.IntRange(1, 4).Draw(t, name) {
				for i := range columns {
					if i > 0 {
						b.WriteByte(',')
					}
					from := cell
					if slices.Contains(competition.numbers, columns[i]) {
						from = rapid.SampledFrom([]string{"0", "1", "2", "3.0", "1e9", "-1", ""})
					}
					b.WriteString(from.Draw(t, "cell"))
				}
				b.WriteByte('\n')
			}
			return b.String()
		}
		answers, err := competition.Open([]byte(file("answers", columns)))
		if err != nil {
			return
		}
		_, _, _ = answers.Score([]byte(file("submission", answers.Columns())), frame.Bounds{})
	})
}
