package tokenizer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// unpacked returns the content of a gz file in testdata/peer, which
// make_peer.py there wrote.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("testdata", "peer", name)))(t)
	defer f.Close()
	packed := must.Get(gzip.NewReader(f))(t)
	content := must.Get(io.ReadAll(packed))(t)
	return content
}

func peerTexts(t testing.TB) []string {
	t.Helper()
	var texts []string
	must.Do(t, json.Unmarshal(unpacked(t, "texts.json.gz"), &texts))
	return texts
}

func peerTokenizer(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok := must.Get(Parse(unpacked(t, name+".json.gz")))(t)
	return tok
}

func appendIDs(raw []byte, ids []int32) []byte {
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(id))
	}
	return raw
}

// TestAgainstPeer compares with what Hugging Face tokenizers 0.23.3 gave for
// each text: ids with special tokens found and spelled out, and what two of
// three ids decode to, with an id beyond the vocabulary at the end.
func TestAgainstPeer(t *testing.T) {
	t.Parallel()
	texts := peerTexts(t)
	var golden struct {
		Tokenizers []struct {
			Name    string
			Digests string
			Wrapped [][]int32
			Full    map[string][]int32
			Planes  map[int]string
		}
	}
	must.Do(t, json.Unmarshal(unpacked(t, "golden.json.gz"), &golden))
	if len(texts) < 10_000 || len(golden.Tokenizers) != 6 {
		t.Fatalf("%d texts, %d tokenizers", len(texts), len(golden.Tokenizers))
	}
	for _, g := range golden.Tokenizers {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			tok := peerTokenizer(t, g.Name)
			digests, err := base64.StdEncoding.DecodeString(g.Digests)
			if err != nil || len(digests) != 4*len(texts) {
				t.Fatalf("%d bytes of digests, %v", len(digests), err)
			}
			for i, want := range g.Wrapped {
				if got := tok.WithSpecial(tok.Encode(texts[i])); !slices.Equal(got, want) {
					t.Errorf("%q with special tokens: got %v, want %v", texts[i], got, want)
				}
			}
			for key, want := range g.Full {
				i := must.Get(strconv.Atoi(key))(t)
				if got := tok.Encode(texts[i]); !slices.Equal(got, want) {
					t.Errorf("text %d, %q: got %v, want %v", i, texts[i], got, want)
				}
			}
			for plane, want := range g.Planes {
				if got := sweep(tok, plane); got != want {
					t.Errorf("the code points of plane %d: got %s, want %s", plane, got, want)
				}
			}
			wrong := 0
			for i, text := range texts {
				ids := tok.Encode(text)
				var kept []int32
				for j, id := range ids {
					if j%3 != 0 {
						kept = append(kept, id)
					}
				}
				kept = append(kept, int32(tok.Size()+3))
				whole := tok.NewDecoder()
				decoded := whole.Write(kept...) + whole.Flush()
				raw := appendIDs(appendIDs(nil, ids), tok.EncodeText(text))
				sum := sha256.Sum256(append(append(raw, decoded...), tok.DecodeText(kept)...))
				if !bytes.Equal(sum[:4], digests[4*i:4*i+4]) {
					if wrong++; wrong <= 5 {
						t.Errorf("text %d, %q: differs; got %v, %q", i, text, ids, decoded)
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d texts differ", wrong, len(texts))
			}
		})
	}
}

// sweep encodes every code point of a plane in the contexts of make_peer.py
// and returns the digest of the ids.
func sweep(tok *Tokenizer, plane int) string {
	sum := sha256.New()
	for start := rune(plane << 16); start < rune(plane+1)<<16; start += 256 {
		if start >= 0xd800 && start < 0xe000 {
			continue
		}
		var text strings.Builder
		for r := start; r < start+256; r++ {
			c := string(r)
			text.WriteString("a" + c + c + "1'" + c + "\u0301'l" + c + "'r" + c + " [WORD]" + c + "[LEFT]")
		}
		sum.Write(appendIDs(nil, tok.Encode(text.String())))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
