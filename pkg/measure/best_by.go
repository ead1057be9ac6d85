package measure

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// bestByAttempt is the best program so far after each attempt of a held-out trace, chosen
// by its validation score: means of medals, HumanRank and quality in percent over the
// traces of the benchmarks, by set and by task.
func bestByAttempt(ctx context.Context, r *Rows, version int) ([]Value, error) {
	chains, err := r.heldOutChains(ctx, version)
	if err != nil {
		return nil, err
	}
	var values []Value
	for _, group := range []struct {
		by     string
		chains []chain
		of     func(chain) string
	}{
		{"", r.counted(chains), func(chain) string { return "" }},
		{"set", chains, func(c chain) string { return c.set }},
		{"task", chains, func(c chain) string { return c.task }},
	} {
		medal, rank, quality := grouped{}, grouped{}, grouped{}
		for _, c := range group.chains {
			for k := range r.Steps(c.set) + 1 {
				best := c.programs.attempts(k + 1).best()
				medal.add(group.of(c), k+1, 100*best.medal())
				rank.add(group.of(c), k+1, 100*best.value(partHumanRank))
				quality.add(group.of(c), k+1, 100*best.Quality)
			}
		}
		values = slices.Concat(values, medal.values(group.by, "any_medal"), rank.values(group.by, "humanrank"), quality.values(group.by, "quality"))
	}
	return values, nil
}

// guided is an absence where no valid held-out program of a version prints a validation
// score.
func guided(ctx context.Context, r *Rows, version int) error {
	chains, err := r.heldOutChains(ctx, version)
	valid, prints := false, false
	for _, c := range chains {
		for _, p := range c.programs.valid() {
			_, validates := p.part(env.PartValidation)
			valid, prints = true, prints || validates
		}
	}
	if err == ErrUngraded || err == nil && valid && !prints {
		return Absent("no held-out answer prints a validation score, by which a greedy search continues; ExIt Fig. 3 has the score of the last answer")
	}
	return err
}

// greedySearch is bestByAttempt where programs print validation scores: ExIt's greedy
// search, whose step is an attempt after the first.
func greedySearch(ctx context.Context, r *Rows, version int) ([]Value, error) {
	if err := guided(ctx, r, version); err != nil {
		return nil, err
	}
	values, err := bestByAttempt(ctx, r, version)
	values = slices.DeleteFunc(values, func(v Value) bool { return v.Column != "quality" })
	for i := range values {
		values[i].X = On(*values[i].X - 1)
	}
	return values, err
}

// bestBySeconds is the best program so far of a held-out trace after each eighth of the
// budget of seconds that its programs have.
func bestBySeconds(ctx context.Context, r *Rows, version int) ([]Value, error) {
	budget := r.Recipe.Evaluation.Seconds
	if budget == 0 {
		return nil, Absent("evaluation.seconds is 0: its traces have no budget of time")
	}
	chains, err := r.countedChains(ctx, version)
	if err != nil {
		return nil, err
	}
	const parts = 8
	var values []Value
	for part := 1; part <= parts; part++ {
		limit := budget * float64(part) / parts
		var medal, rank []float64
		for _, c := range chains {
			best := c.programs.within(limit).best()
			medal, rank = append(medal, 100*best.medal()), append(rank, 100*best.value(partHumanRank))
		}
		m, _ := meanOf(medal)
		h, _ := meanOf(rank)
		values = append(values, Value{Column: "any_medal", X: On(limit), Y: m}, Value{Column: "humanrank", X: On(limit), Y: h})
	}
	return values, nil
}

// bestByValid is the HumanRank of the best of the first k valid submissions of a held-out
// trace.
func bestByValid(ctx context.Context, r *Rows, version int) ([]Value, error) {
	const most = 8
	chains, err := r.countedChains(ctx, version)
	ranks := series{}
	for _, c := range chains {
		valid := c.programs.valid()
		for k := 1; k <= most; k++ {
			ranks.add(k, 100*valid.first(k).best().value(partHumanRank))
		}
	}
	return ranks.values("", "", "humanrank"), err
}

// firstValid is of the first valid submissions of held-out traces, over the benchmarks and of
// each set: how many win a medal, of all traces in percent; their HumanRank in percent; the
// number of the program, from 1; and the share of traces that have one.
func firstValid(ctx context.Context, r *Rows, version int) ([]Value, error) {
	chains, err := r.heldOutChains(ctx, version)
	counts := r.Recipe.Evaluation.Counted()
	var values []Value
	for _, set := range append([]string{AllSets}, r.Sets()...) {
		var medal, rank, number, with []float64
		for _, c := range chains {
			if set == AllSets && !slices.Contains(counts, c.set) || set != AllSets && c.set != set {
				continue
			}
			i := slices.IndexFunc(c.programs, func(p Program) bool { return p.Valid })
			with = append(with, 100*oneIf(i >= 0))
			if i < 0 {
				medal = append(medal, 0)
				continue
			}
			medal = append(medal, 100*c.programs[i].medal())
			rank, number = append(rank, 100*c.programs[i].value(partHumanRank)), append(number, float64(i+1))
		}
		for _, m := range []struct {
			column string
			values []float64
		}{{"medal", medal}, {"humanrank", rank}, {"number", number}, {"with_valid", with}} {
			if mean, known := meanOf(m.values); known {
				values = append(values, Value{"set", set, m.column, nil, mean})
			}
		}
	}
	return values, err
}

// memoryAndReset is the HumanRank of the best program so far of a held-out trace's attempts
// from an earlier program (memory) and of those from scratch (reset), over the tasks for
// which both have a valid submission.
func memoryAndReset(ctx context.Context, r *Rows, version int) ([]Value, error) {
	chains, err := r.countedChains(ctx, version)
	if err != nil {
		return nil, err
	}
	starts := []string{"memory", "reset"}
	own := make([]map[string]programs, len(chains)) // by start
	valid := map[string]map[string]bool{}           // by task and start
	for i, c := range chains {
		own[i] = map[string]programs{}
		for _, p := range c.programs {
			start := starts[0]
			if p.Kind == string(shard.KindInitial) {
				start = starts[1]
			}
			own[i][start] = append(own[i][start], p)
			if valid[c.task] == nil {
				valid[c.task] = map[string]bool{}
			}
			valid[c.task][start] = valid[c.task][start] || p.Valid
		}
	}
	var values []Value
	for _, start := range starts {
		ranks := series{}
		for i, c := range chains {
			programs := own[i][start]
			if !valid[c.task][starts[0]] || !valid[c.task][starts[1]] || len(programs) == 0 {
				continue
			}
			for k := 0; k <= r.Recipe.Evaluation.Steps; k++ {
				ranks.add(k+1, 100*programs.attempts(k+1).best().value(partHumanRank))
			}
		}
		values = append(values, ranks.values("start", start, "humanrank")...)
	}
	if len(values) == 0 {
		return nil, Absent("no held-out task has valid submissions both from an earlier program and from scratch")
	}
	return values, nil
}
