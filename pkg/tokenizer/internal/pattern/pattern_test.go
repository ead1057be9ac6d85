package pattern

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// testSet has the sets of Go's own tables.
func testSet(name string) []rune {
	if ranges, ok := testSets.Load(name); ok {
		return ranges.([]rune)
	}
	ranges := makeSet(name)
	testSets.Store(name, ranges)
	return ranges
}

var testSets sync.Map

func makeSet(name string) []rune {
	tables := map[string]*unicode.RangeTable{"L": unicode.L, "Lu": unicode.Lu, "N": unicode.N, "Nd": unicode.Nd, "space": unicode.White_Space}
	if name == "word" {
		return []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
	}
	table, ok := tables[name]
	if !ok {
		return nil
	}
	var ranges []rune
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.Is(table, r) {
			if n := len(ranges); n > 0 && ranges[n-1] == r-1 {
				ranges[n-1] = r
			} else {
				ranges = append(ranges, r, r)
			}
		}
	}
	return ranges
}

func all(p *Pattern, text string) []string {
	found := []string{}
	p.Each(text, func(from, to int) { found = append(found, text[from:to]) })
	return found
}

// The matches are those of Oniguruma, as tokenizers 0.23.3 has it.
func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, text, want string }{
		{`\s+(?!\S)|\s+`, "a   b ", "  | | "},
		{`a|ab`, "abab", "a|a"},
		{`(?:ab|a)(?=b)`, "abb", "ab"},
		{`(?i:'s|'t|'re)`, "x's 'T 'rE 'ſ", "'s|'T|'rE|'ſ"},
		{`\p{L}{1,2}`, "abcé", "ab|cé"},
		{`\p{^L}+`, "a12b", "12"},
		{`\P{L}+`, "a12b", "12"},
		{`[^\r\n\p{L}]+`, "a1 \n2", "1 |2"},
		{`x*`, "axxb", "|xx|"},
		{`a{,2}b`, "aaab", "aab"},
		{`a{2}?b`, "aab b", "aab|b"},
		{`a{1,2}+`, "aaaa", "aaaa"},
		{`a++ab`, "aaab", ""},
		{`(?>a|ab)c`, "abc ac", "ac"},
		{`a*?b`, "aab", "aab"},
		{`^a|b$`, "a\nab\nb", "a|a|b|b"},
		{`\Aa|b\z`, "ab\nab", "a|b"},
		{`\ba`, "a ba a", "a|a"},
		{`.+`, "ab\ncd", "ab|cd"},
		{`[\-a-c\]]+`, "x-ab]d", "-ab]"},
		{`[一-龥]+`, "a東京b", "東京"},
		{`\x41\x{42}\u0043`, "ABC", "ABC"},
		{`\d+`, "12a३", "12|३"},
		{`[\w-]+`, "a-b c", "a-b|c"},
		{`{a}`, "{a}", "{a}"},
		{`(?<!x`, "", "error: a group that begins with \"(?<!x\" is not supported"},
		{`(a)\1`, "", `error: \1 is not supported`},
		{`[a[b]]`, "", "error: a class in a class is not supported"},
		{`[a&&b]`, "", "error: && in a class is not supported"},
		{`(?m:a)`, "", `error: a group that begins with "(?m:a" is not supported`},
		{`(?i:ss)`, "", `error: "ss" where case is ignored is not supported`},
		{`\p{Cypriot}`, "", `error: \p{Cypriot} is not supported`},
		{`a)`, "", "error: an unmatched )"},
		{`(a`, "", "error: an unmatched ("},
		{`+`, "", "error: nothing stands before the quantifier +"},
		{`[b-a]`, "", "error: a range in a class that ends before it begins, or with a set"},
		{strings.Repeat("(", 200), "", "error: more than 100 groups lie in each other"},
	} {
		p, err := Compile(c.expression, testSet)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = strings.Join(all(p, c.text), "|")
		}
		if got != c.want {
			t.Errorf("%s in %q: got %q, want %q", c.expression, c.text, got, c.want)
		}
	}
}

// What package regexp can match, it matches in the same way.
func TestAgainstRegexp(t *testing.T) {
	t.Parallel()
	atoms := rapid.SampledFrom([]string{"a", "b", ".", "[ab]", "[^a]", "(?:ab|a)", "a*", "b+", "a?", "(?:a|b)*?", "(?:a*)*", "a{1,2}", "|", "(?:b|)", "\\s", "é"})
	rapid.Check(t, func(t *rapid.T) {
		expression := strings.Join(rapid.SliceOfN(atoms, 1, 6).Draw(t, "expression"), "")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aabbcé \n")), 0, 12, -1).Draw(t, "text")
		p, err := Compile(expression, testSet)
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile("(?m)"+expression).FindAllString(text, -1)
		if got := all(p, text); !slices.Equal(got, want) {
			t.Fatalf("%s in %q: got %q, want %q", expression, text, got, want)
		}
	})
}

// Each would take years if time were not linear.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 1<<16)
	for _, expression := range []string{`(a+)+b`, `(a|a)*b|a`, `a+b|a`, `(?=a*b)a|a`, `(?=a*)a`, `(?>a*)b|a`, `a++b|a`, `(?!a*b)a`, `(a?){64}b`, `(?:(?=a+)a)+b|a`} {
		p, err := Compile(expression, testSet)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(all(p, text)); got != len(text) && got != 0 {
			t.Errorf("%s: %d matches", expression, got)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, expression := range []string{`\s+(?!\S)|\s+`, `(?i:'s|'t)`, `[^\r\n\p{L}]?\p{L}++`, `(?>a)(?=b)[\w-]{1,3}?`, `\x{41}|^$\b`} {
		f.Add(expression, "a b\n 's")
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		p, err := Compile(expression, testSet)
		if err != nil || len(p.main.Inst) > 1000 || len(text) > 1000 {
			return
		}
		last := 0
		p.Each(text, func(from, to int) {
			if from < last || to < from || to > len(text) {
				t.Fatalf("%q in %q: a match from %d to %d after %d", expression, text, from, to, last)
			}
			last = to
		})
	})
}
