package tokenizer

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// hostileTokenizer is a small tokenizer.json with every part that is
// implemented. Its ids: 256 bytes, "ab" 256, "abc" 257, <|end|> 258.
func hostileTokenizer() string {
	var vocab []string
	for b := range 256 {
		vocab = append(vocab, strconv.Quote(string(byteRunes[b]))+":"+strconv.Itoa(b))
	}
	return `{"version":"1.0","truncation":null,
"added_tokens":[{"id":258,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":` + strconv.Quote(patternQwen2) + `},"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}]},
"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false},
{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|end|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
"pair":[],"special_tokens":{"<|end|>":{"id":"<|end|>","ids":[258],"tokens":["<|end|>"]}}}]},
"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false},
"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":"","end_of_word_suffix":"","fuse_unk":false,
"byte_fallback":false,"ignore_merges":false,"vocab":{` + strings.Join(vocab, ",") + `,"ab":256,"abc":257},"merges":[["a","b"],["ab","c"]]}}`
}

// TestRefuses damages one thing at a time. Each folder is one data error that
// names the file and says what is wrong.
func TestRefuses(t *testing.T) {
	t.Parallel()
	good := hostileTokenizer()
	const byteA, mergeAB = `"a":97`, `["a","b"]`
	deep := strings.Repeat("[", 1_000_000)
	tests := []struct{ name, old, new, want string }{
		{"another version", `"version":"1.0"`, `"version":"2.0"`, `version: got "2.0", want 1.0`},
		{"no version", `"version":"1.0",`, ``, `field "version" is missing`},
		{"unknown field", `"version":"1.0"`, `"version":"1.0","extra":1`, `"extra" is not known`},
		{"field twice", `"truncation":null`, `"version":"1.0","truncation":null`, `"version" is not known here or given twice`},
		{"field in capitals", `"vocab":`, `"VOCAB":`, `"VOCAB" is not known`},
		{"normalizer not supported", `{"type":"NFC"}`, `{"type":"Precompiled","precompiled_charsmap":"x"}`, "normalizer Precompiled: it is not supported"},
		{"replace without pattern", `{"type":"NFC"}`, `{"type":"Replace","content":"x"}`, `normalizer Replace: field "pattern" is missing`},
		{"replace by two patterns", `{"type":"NFC"}`, `{"type":"Replace","pattern":{"String":"a","Regex":"b"},"content":"x"}`, `pattern: want {"String": …} or {"Regex": …}`},
		{"NFC with settings", `{"type":"NFC"}`, `{"type":"NFC","strength":2}`, `normalizer NFC: field "strength" is not known`},
		{"normalizer in a sequence", `{"type":"NFC"}`, `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prefix":"x"}]}`, `normalizer Prepend: field "prefix" is not known`},
		{"normalizer without type", `{"type":"NFC"}`, `{"kind":"NFC"}`, "want an object with a type"},
		{"normalizer a number", `{"type":"NFC"}`, `7`, "want an object with a type"},
		{"pattern with look-behind", `"Regex":"(?i:`, `"Regex":"(?<!x)(?i:`, `pre_tokenizer Split: pattern "(?<!x)`},
		{"pattern without end", `"Regex":"(?i:`, `"Regex":"((?i:`, "an unmatched ("},
		{"two patterns", `"pattern":{`, `"pattern":{"String":"x",`, `pattern: want {"String": …} or {"Regex": …}`},
		{"no pattern", `"Regex":`, `"Glob":`, `pattern: want {"String": …} or {"Regex": …}`},
		{"unknown behaviour", `"Isolated"`, `"Kept"`, `behavior: got "Kept", want Removed, Isolated`},
		{"another pre-tokenizer", `{"type":"Split"`, `{"type":"UnicodeScripts"`, "pre_tokenizer UnicodeScripts: it is not supported"},
		{"metaspace of two characters", `{"type":"Split"`, `{"type":"Metaspace","replacement":"__"},{"type":"Split"`, `replacement: got "__", want one character`},
		{"metaspace of another scheme", `{"type":"Split"`, `{"type":"Metaspace","replacement":"_","prepend_scheme":"last"},{"type":"Split"`, `prepend_scheme: got "last"`},
		{"another post-processor", `{"type":"TemplateProcessing"`, `{"type":"BertProcessing"`, "post_processor BertProcessing: it is not supported"},
		{"template of two sequences", `"id":"A","type_id":0}}]`, `"id":"A","type_id":0}},{"Sequence":{"id":"A","type_id":1}}]`, "A 2 times, not once"},
		{"template with B", `"id":"A"`, `"id":"B"`, "neither the sequence A nor a special token"},
		{"template of a token that is not there", `"special_tokens":{"<|end|>"`, `"special_tokens":{"<|start|>"`, "which its special_tokens lack"},
		{"template of an id that is not there", `"ids":[258]`, `"ids":[259]`, "has id 259 of 259"},
		{"decoder with settings", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"ByteLevel","extra":1`, `"extra" is not known`},
		{"another decoder", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"CTC"`, "decoder CTC: it is not supported"},
		{"metaspace with settings of bytes", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"Metaspace"`, `decoder Metaspace: field`},
		{"another model", `"type":"BPE"`, `"type":"Unigram"`, `model.type: got "Unigram", want BPE`},
		{"dropout", `"dropout":null`, `"dropout":0.1`, "model.dropout: got 0.1, want null"},
		{"suffix", `"end_of_word_suffix":""`, `"end_of_word_suffix":"</w>"`, `model.end_of_word_suffix: got "</w>", want none`},
		{"no merges", `,"merges":[["a","b"],["ab","c"]]`, ``, `"merges" is missing`},
		{"id twice", byteA, `"a":98`, `has id 98, which "`},
		{"huge id", byteA, `"a":99999999999`, "99999999999"},
		{"id beyond the size", byteA, `"a":2000000000`, "ids from 0 to 4194303 are supported"},
		{"negative id", byteA, `"a":-1`, "has id -1"},
		{"fraction", byteA, `"a":97.5`, "97.5"},
		{"wrong type", byteA, `"a":"97"`, "string"},
		{"merge of a byte without token", byteA + `,`, `"\u4e00":97,`, `uses a token that the vocabulary lacks`},
		{"rank twice", mergeAB, `["a","b"],["a","b"]`, `merge 1 ("a" with "b") appears twice`},
		{"merge of an absent token", mergeAB, `["a","zz"]`, `merge 0 ("a" with "zz") uses a token that the vocabulary lacks`},
		{"merge into an absent token", mergeAB, `["b","a"]`, "uses a token that the vocabulary lacks"},
		{"merge of three", mergeAB, `["a","b","c"]`, "is not a pair"},
		{"merge of one", mergeAB, `"ab"`, "is not a pair"},
		{"merge of three in a string", mergeAB, `"a b c"`, "is not a pair"},
		{"merge of nothing", mergeAB, `["","b"]`, "is not a pair"},
		{"merge of a number", mergeAB, `["a",5,"b"]`, "number"},
		{"merge in a list", mergeAB, `[["a","b"]]`, "array"},
		{"merge a number", mergeAB, `5`, "number"},
		{"vocabulary a list", `"vocab":{`, `"vocab":[{`, "array"},
		{"added id free but not next", `"id":258,"content"`, `"id":300,"content"`, "has id 300; the next free id is 258"},
		{"added id of another token", `"content":"<|end|>"`, `"content":"ab"`, `added token "ab" has id 258, and 256 in the vocabulary`},
		{"added without content", `"content":"<|end|>"`, `"content":""`, "has no content"},
		{"added without flag", `"lstrip":false,`, ``, `"lstrip" is missing`},
		{"added of another type", `"lstrip":false`, `"lstrip":"no"`, "lstrip"},
		{"added too long", `"content":"<|end|>"`, `"content":"` + strings.Repeat("x", 1025) + `"`, "has 1025 bytes"},
		{"added twice", `"added_tokens":[`, `"added_tokens":[{"id":258,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},`, "appears twice"},
		{
			"added twice once normalized", `"added_tokens":[`,
			`"added_tokens":[{"id":258,"content":"\u1ebf","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":true},` +
				`{"id":259,"content":"\u00ea\u0301","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":true}],"padding":[`,
			"added tokens 258 and 259 are both",
		},
		{"a million brackets", `"truncation":null`, `"truncation":` + deep, "max depth"},
		{"a million brackets in the model", `"unk_token":null`, `"unk_token":` + deep, "max depth"},
		{"a million sequences", `{"type":"NFC"}`, strings.Repeat(`{"type":"Sequence","normalizers":[`, 1_000_000), "max depth"},
		{"sequences in sequences", `{"type":"NFC"}`, `{"type":"Sequence","normalizers":[{"type":"Sequence","normalizers":[{"type":"NFX"}]}]}`, `normalizer NFX: it is not supported`},
		{"not UTF-8", `"version"`, "\"\xff\"", "not UTF-8"},
		{"more behind the end", `["ab","c"]]}}`, `["ab","c"]]}}{}`, "more follows the end"},
		{"truncated", good[len(good)/2:], ``, "EOF"},
		{"empty", good, ``, "EOF"},
		{"a list", good, `[]`, "where { should be"},
		{"null", good, `null`, "where { should be"},
		{"HTML", good, `<html>`, "invalid character"},
		{"zeros", good, strings.Repeat("\x00", 1000), "invalid character"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			changed := strings.Replace(good, test.old, test.new, 1)
			if changed == good {
				t.Fatalf("%q is not in the file", test.old)
			}
			path := filepath.Join(t.TempDir(), TokenizerFile)
			must.Do(t, os.WriteFile(path, []byte(changed), 0o666))
			checkRefused(t, filepath.Dir(path), path, test.want)
		})
	}
}

func checkRefused(t *testing.T, folder, path, want string) {
	t.Helper()
	_, err := Load(folder)
	if exitcode.Code(err) != exitcode.Data {
		t.Fatalf("exit code %d, error %v", exitcode.Code(err), err)
	}
	message := err.Error()
	if !strings.Contains(message, path) || !strings.Contains(message, want) {
		t.Errorf("%.400q does not name %q and %q", message, path, want)
	}
	if len(message) > 1000 || strings.Contains(message, "\n") || !utf8.ValidString(message) {
		t.Errorf("not one clear line: %.400q", message)
	}
}

// TestRefusesConfig damages the files beside a good tokenizer.json.
func TestRefusesConfig(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, content, want string }{
		{"not JSON", ConfigFile, `{`, "JSON"},
		{"a list", ConfigFile, `[]`, "array"},
		{"role not there", ConfigFile, `{"pad_token":"<|pad|>"}`, `pad_token: tokenizer.json has no token "<|pad|>"`},
		{"role a number", ConfigFile, `{"eos_token":7}`, "eos_token"},
		{"special not there", ConfigFile, `{"additional_special_tokens":["<|end|>","<|more|>"]}`, `no token "<|more|>"`},
		{"specials a number", ConfigFile, `{"extra_special_tokens":3}`, "extra_special_tokens"},
		{"added not there", ConfigFile, `{"added_tokens_decoder":{"300":{"content":"<|more|>"}}}`, `"<|more|>" with id 300 is not an added token of tokenizer.json, and the next free id is 259`},
		{"added of another id", ConfigFile, `{"added_tokens_decoder":{"7":{"content":"<|end|>"}}}`, `"<|end|>" with id 7 is not an added token`},
		{"blank before against none", ConfigFile, `{"add_prefix_space":true}`, "add_prefix_space is true, against false"},
		{"specials split", ConfigFile, `{"split_special_tokens":true}`, "split_special_tokens is set"},
		{"another role not there", ConfigFile, `{"image_token":"<|image|>"}`, `image_token: tokenizer.json has no token "<|image|>"`},
		{"role in the map not there", SpecialsFile, `{"eos_token":{"content":"<|im_end|>"}}`, `eos_token: tokenizer.json has no token "<|im_end|>"`},
		{"added elsewhere", "added_tokens.json", `{"<|more|>":259}`, `"<|more|>" with id 259 is not an added token`},
		{"vocab_size a string", "config.json", `{"vocab_size":"many"}`, "vocab_size"},
		{"model too small", "config.json", `{"vocab_size":257}`, "vocab_size is 257, and tokenizer.json has 259 tokens"},
		{"model without the end", "config.json", `{"vocab_size":258}`, "vocab_size is 258, and tokenizer.json has 259 tokens"},
		{"model not JSON", "config.json", `x`, "invalid character"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, content := range map[string]string{TokenizerFile: hostileTokenizer(), ConfigFile: `{"eos_token":"<|end|>"}`} {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
			}
			must.Do(t, os.WriteFile(filepath.Join(folder, test.file), []byte(test.content), 0o666))
			checkRefused(t, folder, filepath.Join(folder, test.file), test.want)
		})
	}
	t.Run("no file", func(t *testing.T) {
		folder := t.TempDir()
		checkRefused(t, folder, filepath.Join(folder, TokenizerFile), "no such file")
	})
	t.Run("a folder", func(t *testing.T) {
		folder := t.TempDir()
		path := filepath.Join(folder, TokenizerFile)
		must.Do(t, os.Mkdir(path, 0o777))
		checkRefused(t, folder, path, "it is a folder, not a file")
	})
}
