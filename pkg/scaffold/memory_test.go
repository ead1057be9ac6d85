package scaffold

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/scaffold/memory"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// known is a scored message: a program of one shape, its validation score and,
// where test is given, its test score.
func known(t *testing.T, sample, attempt, turn int, shape uint64, validation float64, test ...float64) Known {
	t.Helper()
	text, err := pysource.Fingerprint{{Hash: shape, Count: 10}}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	v := env.TurnVerdict{Outcome: shard.OutcomeOK, Fingerprint: string(text), Parts: []shard.RewardPart{{Name: env.PartValidation, Value: validation}}}
	for _, score := range test {
		v.Parts = append(v.Parts, shard.RewardPart{Name: "score", Value: score})
	}
	return Known{sample, attempt, turn, v}
}

// TestMemory by hand: a pool of two.
func TestMemory(t *testing.T) {
	t.Parallel()
	invalid := Known{Sample: 1, Attempt: 1, Verdict: env.TurnVerdict{Outcome: shard.OutcomeInvalid}}
	mute := known(t, 1, 1, 1, 9, 0)
	mute.Verdict.Parts = nil
	settings := memory.Settings{Capacity: 2, Threshold: 0.9}
	for _, c := range []struct {
		what  string
		known []Known
		want  [][3]int // sample, attempt and turn of what is held
	}{
		{"nothing yet", nil, nil},
		{"what is not valid, and what says no score", []Known{invalid, mute}, nil},
		{"room for both", []Known{known(t, 0, 0, 0, 1, 0.1), known(t, 1, 0, 0, 2, 0.2)}, [][3]int{{0, 0, 0}, {1, 0, 0}}},
		{"the lowest leaves", []Known{known(t, 0, 0, 0, 1, 0.1), known(t, 1, 0, 0, 2, 0.2), known(t, 0, 1, 3, 3, 0.3)}, [][3]int{{1, 0, 0}, {0, 1, 3}}},
		{"too low", []Known{known(t, 0, 0, 0, 1, 0.1), known(t, 1, 0, 0, 2, 0.2), known(t, 0, 1, 0, 3, 0.05)}, [][3]int{{0, 0, 0}, {1, 0, 0}}},
		{"the better of two alike", []Known{known(t, 0, 0, 0, 1, 0.1), known(t, 1, 0, 0, 1, 0.2)}, [][3]int{{1, 0, 0}}},
		{"by the test score, where it is seen", []Known{known(t, 0, 0, 0, 1, 0.9, 0.1), known(t, 1, 0, 0, 1, 0.2, 0.5)}, [][3]int{{1, 0, 0}}},
	} {
		pool := Memory{Steps: 9, Settings: settings}.pool(c.known)
		var got [][3]int
		for _, s := range pool.Solutions {
			got = append(got, [3]int{int(s.Ref.Sample), int(s.Ref.Step), int(s.Turn)})
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: holds %v, want %v", c.what, got, c.want)
			continue
		}
		for _, w := range c.want {
			found := false
			for _, g := range got {
				found = found || g == w
			}
			if !found {
				t.Errorf("%s: holds %v, want %v", c.what, got, c.want)
			}
		}
	}
}

// TestMemoryNext: about the reset ratio of attempts start from scratch, the others
// from any solution held, of other samples too.
func TestMemoryNext(t *testing.T) {
	t.Parallel()
	m := Memory{Steps: 9, Settings: memory.Settings{Capacity: 3, Threshold: 0.9, ResetRatio: 0.5}}
	all := []Known{known(t, 0, 0, 0, 1, 0.1), known(t, 0, 0, 2, 2, 0.2)}
	const n = 2000
	counts := map[int]int{} // −1: from scratch, else the turn
	for i := range n {
		trace := Trace{Attempts: []Attempt{said(0.1)}, Stream: rng.New(1, rng.PurposeTest, 0, "", i), Known: all}
		switch next := m.Next(trace, env.Traits{}); {
		case next.From == nil && next == draft():
			counts[-1]++
		case next.Kind != shard.KindImprove || next.Parent != -1:
			t.Fatalf("%+v", next)
		default:
			counts[next.From.Turn]++
		}
	}
	// Of 2,000: 1000 ± 22, 500 ± 19; four standard deviations.
	if counts[-1] < 910 || counts[-1] > 1090 || counts[0] < 420 || counts[0] > 580 || counts[-1]+counts[0]+counts[2] != n {
		t.Errorf("from scratch %d, from turn 0 %d, from turn 2 %d of %d", counts[-1], counts[0], counts[2], n)
	}
	if next := m.Next(Trace{Attempts: []Attempt{unknown}, Known: all}, env.Traits{}); !next.Wait {
		t.Errorf("what came of the last attempt is not known: %+v", next)
	}
	m.Steps = 1
	if next := m.Next(Trace{Attempts: []Attempt{said(1)}, Stream: rng.New(1, rng.PurposeTest, 0, "", 0)}, env.Traits{}); next != draft() {
		t.Errorf("an empty pool: %+v", next)
	}
}
