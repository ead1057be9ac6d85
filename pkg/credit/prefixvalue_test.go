package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// prefixOf is the entry of the first messages of sample 2 of instance i1.
func prefixOf(messages int32) shard.Entry {
	return shard.Entry{EntryID: "i1/2/0/" + string('0'+rune(messages)), ParentID: "i1", Ref: shard.Ref{Iteration: 1, Sample: 2, Messages: messages}}
}

// sampledFrom is a group of one segment for each reward, in an iteration.
func sampledFrom(id string, iteration int32, from shard.Entry, rewards ...float64) (Group, []Segment) {
	g := Group{Instance: shard.Instance{InstanceID: id, Iteration: iteration}, From: from}
	var segments []Segment
	for i, r := range rewards {
		g.Traces = append(g.Traces, Trace{Score: shard.Score{Outcome: string(shard.OutcomeOK)}})
		segments = append(segments, Segment{Trace: i, Reward: r})
	}
	return g, segments
}

// By hand. The group of i1 has the rewards 1, 0, 0, 1: V(P_0) = 1/2 and σ = 1/2. Its sample 2 has a
// prefix of 2 messages, of which a group makes 0, 0, 0, 1 (V = 1/4), and one of 4 messages, of
// which a group makes 1, 1, 0, 1 (V = 3/4). Up to message 2: (1/4 − 1/2)/(1/2) = −1/2. From there
// to message 4: (3/4 − 1/4)/(1/2) = 1, and (3/4 − 1/2)/(1/2) = 1/2 where nothing is known of
// message 2.
func TestPrefixValue(t *testing.T) {
	t.Parallel()
	type sampled struct {
		from    shard.Entry
		rewards []float64
	}
	first := sampled{rewards: []float64{1, 0, 0, 1}}
	short, long := sampled{prefixOf(2), []float64{0, 0, 0, 1}}, sampled{prefixOf(4), []float64{1, 1, 0, 1}}
	for name, c := range map[string]struct {
		settings PrefixValue
		first    sampled
		later    [][]sampled // by iteration, from 2 on
		want     [][]Earlier
	}{
		"both at once": {
			PrefixValue{"std", 8},
			first,
			[][]sampled{{long, short}},
			[][]Earlier{{{prefixOf(2), 0, .25, -.5}, {prefixOf(4), 2, .75, 1}}},
		},
		"the longer first": {
			PrefixValue{"std", 8},
			first,
			[][]sampled{{long}, {short}},
			[][]Earlier{{{prefixOf(4), 0, .75, .5}}, {{prefixOf(2), 0, .25, -.5}}},
		},
		"once for each prefix": {
			PrefixValue{"std", 8},
			first,
			[][]sampled{{short}, {short}, {long}},
			[][]Earlier{{{prefixOf(2), 0, .25, -.5}}, nil, {{prefixOf(4), 2, .75, 1}}},
		},
		// 0, 0, 0, 1 and 1, 1, 0, 1 together: V = 1/2, which is no news.
		"two groups of one prefix": {
			PrefixValue{"std", 8}, first, [][]sampled{{short, {prefixOf(2), []float64{1, 1, 0, 1}}}}, [][]Earlier{nil},
		},
		"undivided": {PrefixValue{"none", 8}, first, [][]sampled{{short}}, [][]Earlier{{{prefixOf(2), 0, .25, -.25}}}},
		"a group of equal rewards": {
			PrefixValue{"std", 8}, sampled{rewards: []float64{0, 0, 0, 0}}, [][]sampled{{short}}, [][]Earlier{{{prefixOf(2), 0, .25, .25}}},
		},
		"one response is no value": {PrefixValue{"std", 8}, first, [][]sampled{{{prefixOf(2), []float64{1}}}}, [][]Earlier{nil}},
		"in time":                  {PrefixValue{"std", 2}, first, [][]sampled{nil, {short}}, [][]Earlier{nil, {{prefixOf(2), 0, .25, -.5}}}},
		"too late":                 {PrefixValue{"std", 1}, first, [][]sampled{nil, {short}}, [][]Earlier{nil, nil}},
	} {
		p := prefixValue{c.settings}
		g, segments := sampledFrom("i1", 1, c.first.from, c.first.rewards...)
		other := shard.Stat{Scope: "window", Name: "x", Value: 3} // of another choice
		credits, stats := p.Earlier(1, []shard.Stat{other}, []Group{g}, [][]Segment{segments})
		if len(credits) > 0 {
			t.Errorf("%s: a first attempt is credited: %+v", name, credits)
		}
		for i, iteration := range c.later {
			var groups []Group
			var all [][]Segment
			for j, s := range iteration {
				g, segments := sampledFrom("later"+string('0'+rune(j)), int32(i+2), s.from, s.rewards...)
				groups, all = append(groups, g), append(all, segments)
			}
			credits, stats = p.Earlier(i+2, stats, groups, all)
			if diff := cmp.Diff(c.want[i], credits, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("%s, iteration %d (-want +got):\n%s", name, i+2, diff)
			}
		}
		if stats[0] != other {
			t.Errorf("%s: the statistics of another choice are gone: %v", name, stats)
		}
	}
}

// The advantages of the iteration's own responses are the group's.
func TestPrefixValueOfGroup(t *testing.T) {
	t.Parallel()
	advantage, err := AdvantageAxis.Make("prefix_value", nil)
	if err != nil || advantage.Critic() {
		t.Fatal(err)
	}
	g, segments := sampledFrom("i1", 1, shard.Entry{}, 1, 0, 0, 1)
	g.Traces[3].Score.Outcome = string(shard.OutcomeInfra) // counts nowhere
	if err := advantage.Advantage(g, segments); err != nil {
		t.Fatal(err)
	}
	// 1, 0, 0: mean 1/3, deviation √2/3.
	const root2 = 1.4142135623730951
	got := []float64{segments[0].Advantage, segments[1].Advantage, segments[2].Advantage, segments[3].Advantage}
	if diff := cmp.Diff([]float64{root2, -root2 / 2, -root2 / 2, 0}, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Error(diff)
	}
}

// The credits of a trace's prefixes that are sampled at once add up to the difference
// between the longest one's value and the group's mean: nothing is credited twice. What is
// kept does not grow beyond the iterations that may still count.
func TestPrefixValueAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := prefixValue{PrefixValue{"none", rapid.IntRange(1, 4).Draw(t, "max age")}}
		reward := rapid.SampledFrom([]float64{0, .25, .5, 1})
		start := rapid.SliceOfN(reward, 2, 4).Draw(t, "start")
		g, segments := sampledFrom("i1", 1, shard.Entry{}, start...)
		_, stats := p.Earlier(1, nil, []Group{g}, [][]Segment{segments})
		var groups []Group
		var all [][]Segment
		var last float64
		lengths := rapid.Permutation([]int32{1, 2, 3, 4, 5}).Draw(t, "lengths")[:rapid.IntRange(1, 5).Draw(t, "prefixes")]
		longest := int32(0)
		for _, messages := range lengths {
			rewards := rapid.SliceOfN(reward, 2, 4).Draw(t, "rewards")
			g, segments := sampledFrom("later", 2, prefixOf(messages), rewards...)
			groups, all = append(groups, g), append(all, segments)
			if messages > longest {
				longest, last = messages, mean(rewards)
			}
		}
		credits, stats := p.Earlier(2, stats, groups, all)
		sum := 0.0
		for i, c := range credits {
			sum += c.Advantage
			if i > 0 && c.After < credits[i-1].Entry.Ref.Messages {
				t.Fatalf("turns are credited twice: %+v", credits)
			}
		}
		if diff := sum - (last - mean(start)); diff > 1e-9 || diff < -1e-9 {
			t.Fatalf("%+v add up to %v, want %v", credits, sum, last-mean(start))
		}
		if _, left := p.Earlier(3+p.MaxAge, stats, nil, nil); len(left) > 0 {
			t.Fatalf("%v are kept", left)
		}
	})
}
