package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The bounds of the sample transcripts of a page.
const (
	perPattern  = 2   // transcripts of one pattern
	promptRunes = 700 // of a prompt
	answerRunes = 900 // of an answer
)

// transcript is one held-out problem with the answers of two policies.
type transcript struct {
	Pattern string // why it is shown
	Task    string
	Kind    string
	Prompt  string
	Sample  string
	Chains  []answers
	key     chainKey
}

// answers is one policy's line of answers.
type answers struct {
	Policy string
	Steps  []answer
}

// answer is what a policy said at one step.
type answer struct {
	Step      int
	Text      string
	Extracted string // the answer that was scored, when it is not the whole text
	Outcome   string
	Right     bool
}

// pattern is a pattern that a pair of chains may show.
type pattern struct {
	words string
	holds func(before, after []shard.EvaluationRow) bool
}

var patterns = []pattern{
	{"corrected by self-improvement", func(_, a []shard.EvaluationRow) bool {
		return len(a) > 1 && !rightAt(a, 0) && rightAt(a, len(a)-1)
	}},
	{"learned: wrong before training, right after", func(b, a []shard.EvaluationRow) bool {
		return len(b) > 0 && !rightAt(b, 0) && rightAt(a, 0)
	}},
	{"broken by self-improvement", func(_, a []shard.EvaluationRow) bool {
		return len(a) > 1 && rightAt(a, 0) && !rightAt(a, len(a)-1)
	}},
	{"still wrong", func(b, a []shard.EvaluationRow) bool {
		return len(a) > 0 && neverRight(b) && neverRight(a)
	}},
	{"unlearned: right before training, wrong after", func(b, a []shard.EvaluationRow) bool {
		return len(b) > 0 && len(a) > 0 && rightAt(b, 0) && !rightAt(a, 0)
	}},
}

func neverRight(chain []shard.EvaluationRow) bool {
	return !slices.ContainsFunc(chain, func(r shard.EvaluationRow) bool { return r.Outcome == string(shard.OutcomeOK) })
}

func rightAt(chain []shard.EvaluationRow, step int) bool {
	return step < len(chain) && chain[step].Outcome == string(shard.OutcomeOK)
}

// transcripts picks the first chains of each pattern, in the order of the
// evaluation. No problem is shown twice. after is of the newest version that is
// measured, which may be the one that before is of.
func transcripts(before, after []shard.EvaluationRow) []transcript {
	if len(before) > 0 && len(after) > 0 && before[0].PolicyVersion == after[0].PolicyVersion {
		before = nil
	}
	was, _ := chains(measured(before))
	is, order := chains(measured(after))
	shown := map[string]bool{}
	var picked []transcript
	for _, l := range patterns {
		count := 0
		for _, key := range order {
			if count == perPattern {
				break
			}
			if shown[key.task] || !l.holds(was[key], is[key]) {
				continue
			}
			shown[key.task] = true
			count++
			picked = append(picked, newTranscript(l.words, key, was[key], is[key]))
		}
	}
	return picked
}

// readTranscripts picks transcripts of the run's first policy version and of the newest that
// is measured. The rows are read twice, so that no more texts are in memory than are shown.
func readTranscripts(ctx context.Context, r *measure.Rows) ([]transcript, error) {
	s, err := r.Summary(ctx)
	if err != nil || len(s.AccuracyByVersion) == 0 {
		return nil, err
	}
	versions := []int{-1, s.AccuracyByVersion[len(s.AccuracyByVersion)-1].Version}
	if s.AccuracyByVersion[0].Version == 0 {
		versions[0] = 0
	}
	read := func(keep func(*shard.EvaluationRow) bool) (rows [2][]shard.EvaluationRow, err error) {
		for i, version := range versions {
			for n := range r.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: max(0, version)}) {
				if version < 0 {
					break
				}
				for row, err := range shard.Rows[shard.EvaluationRow](ctx, r.Dir.Evaluation(version, n), r.Graph.Reading(0)) {
					if err != nil {
						return rows, err
					}
					if cmp.Or(row.Set, string(env.Test)) == string(env.Test) && keep(&row) {
						rows[i] = append(rows[i], row)
					}
				}
			}
		}
		return rows, nil
	}
	outcomes, err := read(func(row *shard.EvaluationRow) bool {
		*row = shard.EvaluationRow{TaskID: row.TaskID, Sample: row.Sample, Step: row.Step, Outcome: row.Outcome, PolicyVersion: row.PolicyVersion}
		return true
	})
	if err != nil {
		return nil, err
	}
	picked := map[chainKey]bool{}
	for _, t := range transcripts(outcomes[0], outcomes[1]) {
		picked[t.key] = true
	}
	rows, err := read(func(row *shard.EvaluationRow) bool { return picked[chainKey{row.TaskID, row.Sample}] })
	return transcripts(rows[0], rows[1]), err
}

// chainKey names one line of answers to one problem.
type chainKey struct {
	task   string
	sample int32
}

// measured are the rows that have an answer of the policy's own.
func measured(rows []shard.EvaluationRow) []shard.EvaluationRow {
	return slices.DeleteFunc(slices.Clone(rows), func(r shard.EvaluationRow) bool { return !shard.Outcome(r.Outcome).Policys() })
}

// chains groups rows by problem and sample, in their order. Rows of a chain
// are in the order of steps.
func chains(rows []shard.EvaluationRow) (map[chainKey][]shard.EvaluationRow, []chainKey) {
	byKey := map[chainKey][]shard.EvaluationRow{}
	var order []chainKey
	for _, row := range rows {
		key := chainKey{row.TaskID, row.Sample}
		if byKey[key] == nil {
			order = append(order, key)
		}
		byKey[key] = append(byKey[key], row)
	}
	return byKey, order
}

func newTranscript(pattern string, key chainKey, before, after []shard.EvaluationRow) transcript {
	t := transcript{key: key, Pattern: pattern, Task: key.task, Kind: after[0].Kind, Prompt: clipped(after[0].Prompt, promptRunes), Sample: "greedy"}
	if key.sample >= 0 {
		t.Sample = fmt.Sprintf("sample %d", key.sample)
	}
	for _, chain := range [][]shard.EvaluationRow{before, after} {
		if len(chain) == 0 {
			continue
		}
		a := answers{Policy: fmt.Sprintf("policy v%06d", chain[0].PolicyVersion)}
		if len(before) > 0 {
			a.Policy = map[bool]string{true: "before", false: "after"}[chain[0].PolicyVersion == 0] + ": " + a.Policy
		}
		for _, row := range chain {
			said := answer{
				Step: int(row.Step), Text: clipped(row.Response, answerRunes), Outcome: row.Outcome,
				Right: row.Outcome == string(shard.OutcomeOK),
			}
			if row.Extracted != row.Response {
				said.Extracted = clipped(row.Extracted, 80)
			}
			a.Steps = append(a.Steps, said)
		}
		t.Chains = append(t.Chains, a)
	}
	return t
}

// clipped cuts a text and says so.
func clipped(s string, n int) string {
	text, cut := shortened(s, n)
	if cut {
		text += " […]"
	}
	return text
}
