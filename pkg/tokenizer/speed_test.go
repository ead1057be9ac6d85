package tokenizer

import (
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// mixedText is the prose in many scripts and the code of the golden texts.
func mixedText(b testing.TB) string { return strings.Join(peerTexts(b)[:4400], "\n") }

// processorSeconds is what this process has used, whoever else runs.
func processorSeconds(b *testing.B) float64 {
	var usage syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	tok.Encode(text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	start := processorSeconds(b)
	for b.Loop() {
		tok.Encode(text)
	}
	b.ReportMetric(float64(b.N)*float64(len(text))/1e6/(processorSeconds(b)-start), "MB/core-s")
}

func BenchmarkEncode(b *testing.B) {
	text := mixedText(b)
	for _, name := range []string{"gpt2", "llama3", "qwen2"} {
		b.Run(name, func(b *testing.B) {
			benchmarkEncode(b, peerTokenizer(b, name), text)
		})
	}
}

// worstTexts are texts of n bytes that make one piece of everything, or as
// many pieces as can be.
func worstTexts(n int) map[string]string {
	texts := map[string]string{}
	for name, unit := range map[string]string{
		"letter": "a", "blanks": " ", "digits": "7", "emoji": "🙂", "marks": "\u0301\u0315\u0327", "lines": "\n", "line ends": "\r\n ",
		"apostrophes": "'", "jamo": "\u1100\u1161\u11a8", "added": "<|im_start|>", "nearly added": "<|im_start", "bytes": "\xf0\x9f", "letters": "ab",
		"wide blanks": "\u3000", "blank and letter": " a",
	} {
		texts[name] = strings.Repeat(unit, n/len(unit))
	}
	return texts
}

// TestWorstTexts would take hours if anything were quadratic in the length of
// a text.
func TestWorstTexts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"qwen2", "flags1", "flags2"} {
		tok := peerTokenizer(t, name)
		for kind, text := range worstTexts(1 << 19) {
			ids := tok.Encode(text)
			if got := tok.Decode(ids); !tok.prefixes && got != tok.normalize(text, beginning) {
				t.Errorf("%s, %s: another text came back", name, kind)
			}
			tok.DecodeText(ids)
		}
	}
	// Every token strips the blanks to its right, and all of them are blanks.
	blank := must.Get(newMatcher([]addedToken{{content: "\t", rightStrip: true}}, []string{"\t"}))(t)
	found := 0
	blank.split(unicodeTables(), strings.Repeat("\t", 1<<20), false, func(*addedToken, string) { found++ })
	if found != 1<<20 {
		t.Errorf("%d tokens found, want one for each tab, as the peer finds them", found)
	}
}

func BenchmarkEncodeWorst(b *testing.B) {
	tok := peerTokenizer(b, "qwen2")
	for name, text := range worstTexts(1 << 20) {
		b.Run(name, func(b *testing.B) {
			benchmarkEncode(b, tok, text)
		})
	}
}
