package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConfigAgainstPeer compares folders with a tokenizer_config.json with
// what transformers makes of them (testdata/peer/make_config.py).
func TestConfigAgainstPeer(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "peer", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for i, c := range golden.Cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var file map[string]json.RawMessage
			if err := json.Unmarshal(unpacked(t, c.Tokenizer+".json.gz"), &file); err != nil {
				t.Fatal(err)
			}
			for key, value := range c.Changes {
				file[key] = value
			}
			changed, err := json.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			for name, content := range map[string][]byte{TokenizerFile: changed, ConfigFile: c.Config} {
				if err := os.WriteFile(filepath.Join(folder, name), content, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			tok, err := Load(folder)
			if err != nil {
				t.Fatal(err)
			}
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
