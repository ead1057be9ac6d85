package folder

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// bpe is the metadata of a byte-level tokenizer, with other values for some keys; nil takes
// a key away.
func bpe(more gguf.Metadata) gguf.Metadata {
	return changed(gguf.Metadata{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": []string{"a", "b", "ab", "<s>", "</s>"},
		"tokenizer.ggml.token_type": []int64{1, 1, 1, 3, 4}, "tokenizer.ggml.merges": []string{"a b"}, "tokenizer.ggml.bos_token_id": int64(3),
	}, more)
}

// spm is that of one of SentencePiece: 256 bytes from 4 on.
func spm(more gguf.Metadata) gguf.Metadata {
	tokens, types := []string{"<s>", "</s>", "▁", " x"}, []int64{3, 3, 1, 4}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	tokens, types = append(tokens, "<unk>"), append(types, 2)
	return changed(gguf.Metadata{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": make([]float64, len(tokens)),
		"tokenizer.ggml.bos_token_id": int64(0), "tokenizer.ggml.eos_token_id": int64(1),
	}, more)
}

func changed(m, more gguf.Metadata) gguf.Metadata {
	maps.Copy(m, more)
	maps.DeleteFunc(m, func(_ string, value any) bool { return value == nil })
	return m
}

// plain is a value as JSON has it.
func plain(t *testing.T, value any) (v any) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(value))(t), &v))
	return v
}

const ggml = "tokenizer.ggml."

// TestTokenizerRefused: what a tokenizer of a file must have.
func TestTokenizerRefused(t *testing.T) {
	t.Parallel()
	rows := func(n int) *model { return &model{name: "llama", vocabulary: n} }
	for _, c := range []struct {
		m     gguf.Metadata
		pre   string
		shape *model
		says  string // empty for one that is read
	}{
		{bpe(nil), "", rows(5), ""},
		{bpe(nil), "", rows(4), `"tokenizer.ggml.tokens" has 5 tokens, and "token_embd.weight" has 4 rows`},
		{bpe(gguf.Metadata{ggml + "tokens": nil}), "", rows(5), "has 0 tokens"},
		{bpe(gguf.Metadata{ggml + "tokens": "a"}), "", rows(5), "is a string, want a list of strings"},
		{bpe(gguf.Metadata{ggml + "tokens": []string{"a", "b", "ab", "", "c"}}), "", rows(5), "token 3 is empty"},
		{bpe(gguf.Metadata{ggml + "tokens": []string{"a", "b", "ab", "\xff", "c"}}), "", rows(5), "token 3 is empty or no UTF-8"},
		{bpe(gguf.Metadata{ggml + "tokens": []string{"a", "b", "ab", "c", "b"}}), "", rows(5), "tokens 1 and 4 are the same"},
		{bpe(gguf.Metadata{ggml + "token_type": []int64{1, 1, 1, 3, 0}}), "", rows(5), "token 4 has the type 0"},
		{bpe(gguf.Metadata{ggml + "token_type": []int64{6, 6, 6, 1, 7}}), "", rows(5), "token 4 has the type 7"},
		{bpe(gguf.Metadata{ggml + "token_type": []int64{1, 1}}), "", rows(5), "has 2 entries for 5 tokens"},
		{bpe(gguf.Metadata{ggml + "token_type": []int64{1, 1, 1, 5, 5}}), "", rows(5), "bos_token_id\" is 3, and there are 3 tokens"},
		{bpe(gguf.Metadata{ggml + "token_type": []int64{5, 5, 5, 5, 5}}), "", rows(5), "and there are 1 tokens"},
		{bpe(gguf.Metadata{ggml + "eot_token_id": int64(5)}), "", rows(5), `"tokenizer.ggml.eot_token_id" is 5`},
		{bpe(gguf.Metadata{ggml + "padding_token_id": int64(1 << 31)}), "", rows(5), `"tokenizer.ggml.padding_token_id" is 2147483647`},
		{bpe(gguf.Metadata{ggml + "unknown_token_id": int64(math.MaxUint32 - 1)}), "", rows(5), "unknown_token_id"},
		{bpe(gguf.Metadata{ggml + "unknown_token_id": int64(math.MaxUint32)}), "", rows(5), ""}, // llama.cpp's none
		{bpe(gguf.Metadata{ggml + "eos_token_id": int64(-1)}), "", rows(5), ""},
		{bpe(gguf.Metadata{ggml + "eos_token_id": "</s>"}), "", rows(5), "is a string, want an integer"},
		{bpe(gguf.Metadata{"tokenizer.chat_template.tool": int64(1)}), "", rows(5), `"tokenizer.chat_template.tool" is an integer`},
		{bpe(gguf.Metadata{ggml + "add_bos_token": int64(1)}), "", rows(5), "want a bool"},
		{bpe(gguf.Metadata{ggml + "merges": nil}), "", rows(5), `"tokenizer.ggml.merges" is missing`},
		{bpe(gguf.Metadata{ggml + "merges": int64(1)}), "", rows(5), "want a list of strings"},
		{bpe(gguf.Metadata{ggml + "merges": []string{"a b", "ab"}}), "", rows(5), `entry 1, "ab", is not a pair`},
		{bpe(gguf.Metadata{ggml + "merges": []string{"b a"}}), "", rows(5), `entry 0, "b a", is not a pair`},
		{bpe(gguf.Metadata{ggml + "pre": nil}), "", rows(5), "name it with --pre, one of [codeshell dbrx deepseek-coder"},
		{bpe(gguf.Metadata{ggml + "pre": nil}), "llama3", rows(5), ""},
		{bpe(gguf.Metadata{ggml + "pre": nil}), "", &model{name: "qwen3", vocabulary: 5}, ""},
		{bpe(gguf.Metadata{ggml + "model": nil}), "", rows(5), `is ""; gpt2 and llama are implemented`},
		{spm(nil), "", rows(261), ""},
		{spm(nil), "gpt-2", rows(261), `--pre: got "gpt-2"`},
		{spm(gguf.Metadata{ggml + "scores": nil}), "", rows(261), "has 0 entries for 261 tokens"},
		{spm(gguf.Metadata{ggml + "scores": make([]float64, 262)}), "", rows(261), ""},
		{spm(gguf.Metadata{ggml + "scores": []int64{1}}), "", rows(261), "want a list of floats"},
		{spm(gguf.Metadata{ggml + "scores": append([]float64{0, math.NaN()}, make([]float64, 259)...)}), "", rows(261), "entry 1 is no number"},
	} {
		_, err := readTokenizer(c.m, c.pre, c.shape)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// TestBeginAndEnd: which tokens are put around a text, by the pre-tokenizer and what the
// file says, and which end a response.
func TestBeginAndEnd(t *testing.T) {
	t.Parallel()
	special := func(token string, kind int) string {
		return fmt.Sprintf(`{"SpecialToken": {"id": %q, "type_id": %d}}`, token, kind)
	}
	text := func(name string, kind int) string {
		return fmt.Sprintf(`{"Sequence": {"id": %q, "type_id": %d}}`, name, kind)
	}
	template := func(single, pair []string, specials string) string {
		return fmt.Sprintf(`{"type": "TemplateProcessing", "single": [%s], "pair": [%s], "special_tokens": {%s}}`, strings.Join(single, ","), strings.Join(pair, ","), specials)
	}
	const s, end = `"<s>": {"id": "<s>", "ids": [%d], "tokens": ["<s>"]}`, `"</s>": {"id": "</s>", "ids": [%d], "tokens": ["</s>"]}`
	bytes := `{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}`
	both := func(around string) string {
		return `{"type": "Sequence", "processors": [` + bytes + "," + around + `]}`
	}
	begins := template([]string{special("<s>", 0), text("A", 0)}, []string{special("<s>", 0), text("A", 0), special("<s>", 1), text("B", 1)}, fmt.Sprintf(s, 3))
	ends := template([]string{text("A", 0), special("</s>", 0)}, []string{text("A", 0), special("</s>", 0), text("B", 1), special("</s>", 1)}, fmt.Sprintf(end, 4))
	for name, c := range map[string]struct {
		m     gguf.Metadata
		pre   string
		after string // post_processor
		stops []int
	}{
		"gpt-2 adds none":           {bpe(nil), "", bytes, nil},
		"llama3 begins":             {bpe(nil), "llama3", both(begins), nil},
		"the file says no":          {bpe(gguf.Metadata{ggml + "add_bos_token": false}), "llama3", bytes, nil},
		"there is none to begin":    {bpe(gguf.Metadata{ggml + "bos_token_id": nil}), "llama3", bytes, nil},
		"the file says yes":         {bpe(gguf.Metadata{ggml + "add_bos_token": true}), "", both(begins), nil},
		"it ends":                   {bpe(gguf.Metadata{ggml + "add_eos_token": true, ggml + "eos_token_id": int64(4)}), "", both(ends), []int{4}},
		"there is none to end":      {bpe(gguf.Metadata{ggml + "add_eos_token": true}), "", bytes, nil},
		"the first token begins":    {bpe(gguf.Metadata{ggml + "tokens": []string{"<s>", "b", "a", "ba", "</s>"}, ggml + "merges": []string{"b a"}, ggml + "bos_token_id": int64(0), ggml + "eot_token_id": int64(0)}), "llama3", both(strings.Replace(begins, "[3]", "[0]", 1)), []int{0}},
		"turns end too":             {bpe(gguf.Metadata{ggml + "eos_token_id": int64(4), ggml + "eot_token_id": int64(3)}), "", bytes, []int{4, 3}},
		"by name, without a chat":   {bpe(gguf.Metadata{ggml + "tokens": []string{"a", "b", "ab", "<s>", "<|end|>"}}), "", bytes, nil},
		"by name":                   {bpe(gguf.Metadata{ggml + "tokens": []string{"a", "b", "ab", "<end_of_turn>", "<|end|>"}, "tokenizer.chat_template": "x", ggml + "eos_token_id": int64(4)}), "", bytes, []int{4, 3}},
		"by name of a normal token": {bpe(gguf.Metadata{ggml + "tokens": []string{"a", "b", "ab", "<s>", "<|end|>"}, ggml + "token_type": []int64{1, 1, 1, 3, 1}, "tokenizer.chat_template": "x"}), "", bytes, nil},
		"SentencePiece begins":      {spm(nil), "", strings.Replace(begins, "[3]", "[0]", 1), []int{1}},
		"SentencePiece ends":        {spm(gguf.Metadata{ggml + "add_bos_token": false, ggml + "add_eos_token": true}), "", strings.Replace(ends, "[4]", "[1]", 1), []int{1}},
		"SentencePiece adds none":   {spm(gguf.Metadata{ggml + "add_bos_token": false}), "", "null", []int{1}},
	} {
		got, err := readTokenizer(c.m, c.pre, &model{name: "llama", vocabulary: 300})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want any
		must.Do(t, json.Unmarshal([]byte(c.after), &want))
		if diff := cmp.Diff(want, plain(t, got.json()["post_processor"])); diff != "" || !slices.Equal(got.stops(), c.stops) {
			t.Errorf("%s: a response ends at %v, want %v; (-want +got):\n%s", name, got.stops(), c.stops, diff)
		}
	}
}

// TestTokenizerJSON: the parts of tokenizer.json that depend on the kind of a tokenizer.
func TestTokenizerJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m            gguf.Metadata
		architecture string
		want         string // some of its fields
		added        string // id, content and special of each added token
		size         int    // of the vocabulary
		unk          any
	}{
		"gpt-2": {bpe(nil), "llama", `{"normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
			"decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}}`, "3 <s> true, 4 </s> false", 3, nil},
		"an unknown token is normal, and ends the added ones": {bpe(gguf.Metadata{ggml + "token_type": []int64{3, 1, 1, 2, 3}, ggml + "unknown_token_id": int64(3)}), "llama", `{"normalizer": null}`, "0 a true, 4 </s> true", 4, nil},
		"every token is added":                                {bpe(gguf.Metadata{ggml + "token_type": []int64{3, 3, 3, 3, 3}}), "llama", `{"normalizer": null}`, "0 a true, 1 b true, 2 ab true, 3 <s> true, 4 </s> true", 0, nil},
		"types by default":                                    {bpe(gguf.Metadata{ggml + "token_type": nil, ggml + "eot_token_id": int64(4), ggml + "unknown_token_id": int64(2)}), "llama", `{"normalizer": null}`, "3 <s> true, 4 </s> true", 3, nil},
		"the first by default":                                {bpe(gguf.Metadata{ggml + "token_type": nil, ggml + "bos_token_id": int64(0), ggml + "eos_token_id": int64(4), ggml + "padding_token_id": int64(3)}), "llama", `{"normalizer": null}`, "0 a true, 3 <s> true, 4 </s> true", 3, nil},
		"smollm": {bpe(gguf.Metadata{ggml + "pre": "smollm"}), "llama", `{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
			{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]}}`, "3 <s> true, 4 </s> false", 3, nil},
		"qwen2, which an early file does not name": {bpe(gguf.Metadata{ggml + "pre": nil}), "qwen2", `{"normalizer": {"type": "NFC"}}`, "3 <s> true, 4 </s> false", 3, nil},
		"SentencePiece": {
			spm(nil), "llama", `{"pre_tokenizer": null,
			"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
			"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}`,
			"0 <s> true, 1 </s> true, 3  x false, 260 <unk> true", 261, "<unk>",
		},
		"SentencePiece without a space before": {
			spm(gguf.Metadata{ggml + "add_space_prefix": false, ggml + "unknown_token_id": int64(0)}), "llama", `{"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
			"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}}`,
			"0 <s> true, 1 </s> true, 3  x false, 260 <unk> true", 261, "<s>",
		},
	} {
		tokens, err := readTokenizer(c.m, "", &model{name: c.architecture, vocabulary: 300})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := plain(t, tokens.json()).(map[string]any)
		var want map[string]any
		must.Do(t, json.Unmarshal([]byte(c.want), &want))
		for field, value := range want {
			if diff := cmp.Diff(value, got[field]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, field, diff)
			}
		}
		var added []string
		for _, token := range got["added_tokens"].([]any) {
			token := token.(map[string]any)
			added = append(added, fmt.Sprint(token["id"], " ", token["content"], " ", token["special"]))
		}
		model := got["model"].(map[string]any)
		if vocabulary := model["vocab"].(map[string]any); strings.Join(added, ", ") != c.added || len(vocabulary) != c.size || model["unk_token"] != c.unk || model["fuse_unk"] != tokens.spm {
			t.Errorf("%s: added are %q; %d tokens, unknown is %v, %v", name, added, len(vocabulary), model["unk_token"], model["fuse_unk"])
		}
	}
}

// TestSpaces: a user-defined token of spaces alone has them as SentencePiece writes them, and
// the score of none is below it.
func TestSpaces(t *testing.T) {
	t.Parallel()
	m := spm(nil)
	copy(m[ggml+"tokens"].([]string), []string{"<s>", "  ", "▁", " x"})
	copy(m[ggml+"token_type"].([]int64), []int64{3, 4, 1, 4})
	copy(m[ggml+"scores"].([]float64), []float64{-1, -2, -3, -4})
	got := must.Get(readTokenizer(m, "", &model{vocabulary: 300}))(t)
	if diff := cmp.Diff([]string{"<s>", "▁▁", "▁", " x"}, got.pieces[:4]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{-1, 0, -3, 0}, got.scores[:4]); diff != "" {
		t.Error(diff)
	}
}

// TestMergesOfEqualScores by hand: of pieces with one score, the merge with the longer left
// part is first, then that with the longer right one; of one piece with equal lengths there
// is but one. é is one character of two bytes.
func TestMergesOfEqualScores(t *testing.T) {
	t.Parallel()
	pieces := []string{"a", "é", "aé", "aéa", "éa", "aa", "aaé"}
	got := mergesOf((&tokenizer{pieces: pieces}).ids(), pieces, make([]float64, len(pieces)))
	want := [][2]string{{"aé", "a"}, {"aa", "é"}, {"a", "éa"}, {"a", "aé"}, {"a", "é"}, {"é", "a"}, {"a", "a"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTokenizerConfig: names of special tokens, and no chat template, one or several.
func TestTokenizerConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more      gguf.Metadata
		templates string
		eos       any
	}{
		"none":      {nil, "null", nil},
		"one":       {gguf.Metadata{"tokenizer.chat_template": "x", ggml + "eos_token_id": int64(0)}, `"x"`, "a"},
		"a named":   {gguf.Metadata{"tokenizer.chat_template.tool": "y"}, `"y"`, nil},
		"several":   {gguf.Metadata{"tokenizer.chat_template": "x", "tokenizer.chat_template.tool": "y"}, `[{"name": "default", "template": "x"}, {"name": "tool", "template": "y"}]`, nil},
		"other key": {gguf.Metadata{"tokenizer.chat_templates": int64(1), "tokenizer.other": int64(1)}, "null", nil},
	} {
		got := plain(t, must.Get(readTokenizer(bpe(c.more), "", &model{vocabulary: 5}))(t).configJSON(32)).(map[string]any)
		var templates any
		must.Do(t, json.Unmarshal([]byte(c.templates), &templates))
		want := map[string]any{
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32.0, "clean_up_tokenization_spaces": false,
			"bos_token": "<s>", "eos_token": c.eos, "pad_token": nil, "unk_token": nil, "add_bos_token": false, "add_eos_token": false,
		}
		if templates != nil {
			want["chat_template"] = templates
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
