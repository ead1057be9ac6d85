package deepmind

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/rng"
)

type real struct{ Module, Regime, Problem, Answer string }

func realProblems(t *testing.T) []real {
	t.Helper()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "..", "..", "shared")
	}
	var all []real
	for _, name := range []string{"train.jsonl", "test.jsonl"} {
		f, err := os.Open(filepath.Join(shared, "data", "math", "deepmind_mathematics", name))
		if err != nil {
			t.Skip("set LATHE_SHARED to the folder that holds data/math")
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var r real
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
	}
	return all
}

// The solver that scores generated problems reads at least 95 of 100 real ones
// of every module and agrees with each answer: what it cannot read are
// functions given as derivatives or by other functions.
func TestRealProblems(t *testing.T) {
	t.Parallel()
	read, all := map[string]int{}, map[string]int{}
	for _, r := range realProblems(t) {
		known := false
		for _, m := range modules {
			known = known || m.name == r.Module
		}
		if !known {
			continue
		}
		all[r.Module]++
		answer, err := solve(r.Problem)
		switch {
		case errors.Is(err, errUnread):
			t.Logf("%s: %s: %v", r.Module, r.Problem, err)
			continue
		case err != nil || answer != r.Answer:
			t.Errorf("%s: %s: %q (%v), want %q", r.Module, r.Problem, answer, err, r.Answer)
		}
		read[r.Module]++
	}
	for _, m := range modules {
		if all[m.name] != 380 || read[m.name]*100 < all[m.name]*95 {
			t.Errorf("%s: %d of %d problems are read", m.name, read[m.name], all[m.name])
		}
	}
}

// Every generated problem is one that the same solver reads, with its answer,
// within the lengths of the dataset. What a stream draws, and how it is worked, never
// changes, or runs could not be made again: the golden file has a checksum of each module's
// problems, and that of package generate has some in full.
func TestMake(t *testing.T) {
	t.Parallel()
	var drawn strings.Builder
	for _, module := range Modules() {
		sum := crc32.NewIEEE()
		for level := 1; level <= 9; level++ {
			for sample := range 200 {
				p := Make(module, level, rng.New(5, rng.PurposeTest, level, module, sample))
				answer, err := solve(p.Question)
				if err != nil || answer != p.Answer {
					t.Errorf("%s level %d: %s: %q, the solver says %q (%v)", module, level, p.Question, p.Answer, answer, err)
				}
				if len(p.Question) > maxQuestion || len(p.Answer) > maxAnswer {
					t.Errorf("%s level %d: %s: %q is too long", module, level, p.Question, p.Answer)
				}
				steps, worked, ok := Work(p.Question)
				fmt.Fprintln(sum, p.Question, p.Answer, steps, worked, ok)
			}
		}
		fmt.Fprintf(&drawn, "%s %08x\n", module, sum.Sum32())
	}
	golden.Check(t, "testdata/drawn.txt", drawn.String())
}
