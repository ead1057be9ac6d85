package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// realRow is what tokenizers makes of a text (testdata/peer/real.py).
type realRow struct {
	Error                      string
	IDs, Around, Spelled, Kept []int32
	Added                      [][3]int32
	Decoded, Skipped, Whole    string
}

// TestRealFiles compares tokenizer.json files of published policies, which are
// no part of the repository, with what tokenizers gives for 10,000 odd texts:
// LATHE_TEST_TOKENIZERS=FOLDER:OUT names the two folders of
// testdata/peer/real.py, which has been run.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	folder, out, ok := strings.Cut(os.Getenv("LATHE_TEST_TOKENIZERS"), ":")
	if !ok {
		t.Skip("LATHE_TEST_TOKENIZERS does not name the folders of testdata/peer/real.py")
	}
	var texts []string
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(out, "texts.json")))(t), &texts))
	for _, path := range must.Get(filepath.Glob(filepath.Join(folder, "*", TokenizerFile)))(t) {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(out, name+".json"))
			if err != nil {
				t.Skip("LATHE_TEST_TOKENIZERS has no results of testdata/peer/real.py for this file")
			}
			var peer struct {
				Own  []string
				Rows []realRow
			}
			must.Do(t, json.Unmarshal(raw, &peer))
			plain := must.Get(Parse(must.Get(os.ReadFile(path))(t)))(t) // without the files beside it
			loaded, err := Load(filepath.Dir(path))
			if err != nil {
				t.Logf("refused with the files beside it: %v", err)
				loaded = plain
			}
			checkReal(t, loaded, plain, append(slices.Clone(texts), peer.Own...), peer.Rows)
		})
	}
}

// TestKinds does the same with a small tokenizer of each kind
// (testdata/peer/make_kinds.py).
func TestKinds(t *testing.T) {
	t.Parallel()
	var golden struct {
		Texts []string
		Kinds map[string]struct {
			Tokenizer json.RawMessage
			Own       []string
			Rows      []realRow
		}
	}
	must.Do(t, json.Unmarshal(unpacked(t, "kinds.json.gz"), &golden))
	if len(golden.Kinds) != 13 {
		t.Fatalf("%d kinds", len(golden.Kinds))
	}
	for name, kind := range golden.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := must.Get(Parse(kind.Tokenizer))(t)
			checkReal(t, tok, tok, append(slices.Clone(golden.Texts), kind.Own...), kind.Rows)
		})
	}
}

func checkReal(t *testing.T, loaded, tok *Tokenizer, texts []string, rows []realRow) {
	wrong := map[string]int{}
	report := func(what, text string, got, want any) {
		if wrong[what]++; wrong[what] <= 3 {
			t.Errorf("%s of %.300q: got %.300v, want %.300v", what, text, got, want)
		}
	}
	for i, want := range rows {
		if want.Error != "" {
			continue
		}
		text := texts[i]
		ids := tok.Encode(text)
		if !slices.Equal(ids, want.IDs) {
			report("ids", text, ids, want.IDs)
			continue
		}
		if got := tok.EncodeText(text); !slices.Equal(got, want.Spelled) {
			report("spelled out", text, got, want.Spelled)
		}
		if got := tok.WithSpecial(ids); !slices.Equal(got, want.Around) {
			report("around", text, got, want.Around)
		}
		if got, ok := addedOffsets(tok, text); ok && !isSubsequence(got, want.Added) {
			report("offsets", text, got, want.Added)
		}
		for _, c := range []struct {
			what string
			skip bool
			ids  []int32
			want string
		}{{"decoded", false, want.Kept, want.Decoded}, {"skipped", true, want.Kept, want.Skipped}, {"whole", false, ids, want.Whole}} {
			d := tok.NewDecoder()
			d.SkipSpecial = c.skip
			if got := d.Write(c.ids...) + d.Flush(); got != c.want {
				report(c.what, text, strconv.Quote(got), strconv.Quote(c.want))
			}
			got := ""
			for _, id := range c.ids {
				part := d.Write(id)
				if !utf8.ValidString(part) {
					report("streamed part", text, part, "UTF-8")
				}
				got += part
			}
			if got += d.Flush(); got != c.want {
				report(c.what+" as a stream", text, strconv.Quote(got), strconv.Quote(c.want))
			}
		}
		if len(loaded.added) != len(tok.added) {
			continue
		}
		if got := loaded.Encode(text); !slices.Equal(got, ids) {
			report("loaded with its folder", text, got, ids)
		}
	}
	for what, n := range wrong {
		t.Errorf("%s: %d of %d differ", what, n, len(rows))
	}
}

// isSubsequence reports whether all of part are in whole, in the same order. The
// model makes tokens that are added ones as well, with offsets of their own.
func isSubsequence(part, whole [][3]int32) bool {
	for _, one := range part {
		i := slices.Index(whole, one)
		if i < 0 {
			return false
		}
		whole = whole[i+1:]
	}
	return true
}

// addedOffsets lists the added tokens of a text with their offsets in
// characters, where no token of the text depends on normalization.
func addedOffsets(tok *Tokenizer, text string) (found [][3]int32, ok bool) {
	if len(tok.normalized.tokens) > 0 {
		return nil, false
	}
	at := int32(0)
	tok.verbatim.split(tok.characters, text, false, func(token *addedToken, stretch string) {
		size := int32(utf8.RuneCountInString(stretch))
		if token != nil {
			found = append(found, [3]int32{token.id, at, at + size})
		}
		at += size
	})
	return found, true
}
