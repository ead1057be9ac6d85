package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestConfigAgainstPeer compares folders with a tokenizer_config.json with
// what transformers makes of them (testdata/peer/make_config.py).
func TestConfigAgainstPeer(t *testing.T) {
	t.Parallel()
	raw := must.Get(os.ReadFile(filepath.Join("testdata", "peer", "config.json")))(t)
	var golden struct {
		Cases []struct {
			Tokenizer        string
			Config           json.RawMessage
			Changes          map[string]json.RawMessage
			Texts            []string
			Encoded, Wrapped [][]int32
			Decoded          []string
		}
	}
	must.Do(t, json.Unmarshal(raw, &golden))
	for i, c := range golden.Cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var file map[string]json.RawMessage
			must.Do(t, json.Unmarshal(unpacked(t, c.Tokenizer+".json.gz"), &file))
			for key, value := range c.Changes {
				file[key] = value
			}
			changed := must.Get(json.Marshal(file))(t)
			folder := t.TempDir()
			for name, content := range map[string][]byte{TokenizerFile: changed, ConfigFile: c.Config} {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), content, 0o666))
			}
			tok := must.Get(Load(folder))(t)
			for j, text := range c.Texts {
				ids := tok.Encode(text)
				if diff := cmp.Diff(c.Encoded[j], ids); diff != "" {
					t.Errorf("%q: %s", text, diff)
				}
				if diff := cmp.Diff(c.Wrapped[j], tok.WithSpecial(ids)); diff != "" {
					t.Errorf("%q with special tokens: %s", text, diff)
				}
				if got := tok.DecodeText(ids); got != c.Decoded[j] {
					t.Errorf("%q decoded to %q, want %q", text, got, c.Decoded[j])
				}
			}
		})
	}
}

// TestRolesOfTheMap: a role in special_tokens_map.json takes the place of the
// same role in tokenizer_config.json, unless that has an added_tokens_decoder,
// so that a token with no role left is not made special.
func TestRolesOfTheMap(t *testing.T) {
	t.Parallel()
	const config = `{"bos_token":"<|end|>","eos_token":"ab","pad_token":"abc","image_token":"<|end|>"%s}`
	tests := []struct {
		name, more string
		named      map[string]string
		roles      Roles
		special    map[string]bool
	}{
		{"the map counts", "", map[string]string{"bos_token": "<|end|>", "eos_token": "<|end|>", "image_token": "<|end|>", "unk_token": "abc"}, Roles{BOS: "<|end|>", EOS: "<|end|>"}, map[string]bool{"ab": false, "abc": true, "<|end|>": true}},
		{"the map does not count", `,"added_tokens_decoder":{"258":{"content":"<|end|>","special":true}}`, map[string]string{"bos_token": "<|end|>", "eos_token": "ab", "pad_token": "abc", "image_token": "<|end|>"}, Roles{BOS: "<|end|>", EOS: "ab", Pad: "abc"}, map[string]bool{"ab": true, "abc": true, "<|end|>": true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, content := range map[string]string{
				TokenizerFile: hostileTokenizer(), ConfigFile: fmt.Sprintf(config, test.more),
				SpecialsFile: `{"eos_token":{"content":"<|end|>"},"pad_token":null,"unk_token":"abc"}`,
			} {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
			}
			tok := must.Get(Load(folder))(t)
			if diff := cmp.Diff(test.named, tok.Named()); diff != "" {
				t.Errorf("names: %s", diff)
			}
			if tok.Roles() != test.roles {
				t.Errorf("roles %v, want %v", tok.Roles(), test.roles)
			}
			for content, want := range test.special {
				if _, got := tok.SpecialID(content); got != want {
					t.Errorf("%q special: %v, want %v", content, got, want)
				}
			}
		})
	}
}

// TestTokensWithoutRow: a special token may have an id that the model has no row
// for, as <image_soft_token> beside Gemma 3 without images.
func TestTokensWithoutRow(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{TokenizerFile: hostileTokenizer(), ConfigFile: `{"pad_token":"<|end|>"}`, "config.json": `{"vocab_size":258}`} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
	}
	tok := must.Get(Load(folder))(t)
	for _, id := range tok.EncodeText("a<|end|>abc") {
		if id >= 258 {
			t.Errorf("a message has token %d of 258", id)
		}
	}
}
