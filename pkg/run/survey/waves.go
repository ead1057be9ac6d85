package survey

import "github.com/lathe-rl/lathe/pkg/run/graph"

// progress is how far a shard has come in its waves.
type progress struct {
	ended bool
	wave  int        // that it is in; the last one, when it has ended
	next  graph.Task // what is to be done of it, when it has not
}

// tasks are those of the wave that a shard of rollouts is in.
func (p progress) tasks(rollouts graph.Node, shard int) (sampled, judged graph.Task) {
	n := rollouts.InWave(p.wave)
	return graph.Task{Node: n, Shard: shard}, graph.Task{Node: n.Judging(), Shard: shard}
}

// progress follows a shard through its waves.
func (w *walk) progress(rollouts graph.Node, shard int) progress {
	for wave := 0; ; wave++ {
		p := progress{wave: wave}
		sampled, judged := p.tasks(rollouts, shard)
		scores := w.look(judged.Node)
		if scores.is(shard) && !scores.goesOn(shard) {
			p.ended = true
			return p
		}
		// The next wave reads the rollouts too.
		if !w.look(sampled.Node).is(shard) {
			p.next = sampled
			return p
		}
		if !scores.is(shard) {
			p.next = judged
			return p
		}
	}
}

// sample follows every shard of an iteration's rollouts, or an evaluation's, and
// lists what can be done of it now. Shards do not wait for each other. It returns
// nil when nothing of them is there or can be made. Shards that need not be there
// are left out.
func (w *walk) sample(rollouts graph.Node, needless func(shard int) bool) []progress {
	if shards, seen := w.sampled[rollouts]; seen {
		return shards
	}
	if w.look(rollouts.Judging()).count == 0 && w.look(rollouts).count == 0 && !w.readable(graph.Task{Node: rollouts}) {
		w.sampled[rollouts] = nil
		return nil
	}
	shards := make([]progress, w.Shards(rollouts))
	in := map[graph.Node]int{} // shards that have come to a node
	for shard := range shards {
		if w.stopped() {
			return nil
		}
		if needless != nil && needless(shard) {
			continue
		}
		p := w.progress(rollouts, shard)
		shards[shard] = p
		for wave := range p.wave + 1 {
			in[rollouts.InWave(wave)]++
			in[rollouts.InWave(wave).Judging()]++
		}
		switch {
		case p.ended || !w.readable(p.next):
		case rollouts.HeldOut():
			w.offer(p.next)
		case !w.GaveUp(p.next): // else the quorum decides
			w.ready(p.next)
		}
	}
	for n, total := range in {
		if count, looked := w.result.Counts[n]; looked && n.Wave > 0 {
			w.result.Counts[n] = Count{Sealed: count.Sealed, Total: total}
		}
	}
	w.sampled[rollouts] = shards
	return shards
}

// readable reports whether what a task of a shard reads is sealed, but for what
// of its own shard it follows.
func (w *walk) readable(t graph.Task) bool {
	ready := w.visit(w.PlanMaker(t.Node))
	if t.Samples() {
		ready = w.visit(w.LastLearn(w.SampledBy(t.Node))) && ready
	}
	return ready
}

// evaluate lists what can be done of an evaluation: a shard is gathered when its
// last wave is scored.
func (w *walk) evaluate(n graph.Node, gathered *array) {
	rollouts := n.Sampling()
	shards := w.sample(rollouts, gathered.is)
	for shard, p := range shards {
		if !gathered.is(shard) && p.ended && w.visit(graph.Node{Stage: graph.StageEvalPlan}) && w.judged(rollouts, shard) {
			w.offer(graph.Task{Node: n, Shard: shard})
		}
	}
}

// judged reports whether the rollouts and scores of all waves of a shard that
// has ended are there, and visits those that are not.
func (w *walk) judged(rollouts graph.Node, shard int) bool {
	for wave := 0; ; wave++ {
		sampled, judged := progress{wave: wave}.tasks(rollouts, shard)
		// Both are read, so a score that is there does not do for its rollout.
		there := w.task(sampled)
		if there = w.task(judged) && there; !there || !w.look(judged.Node).goesOn(shard) {
			return there
		}
	}
}
