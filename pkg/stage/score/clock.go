package score

import "github.com/lathe-rl/lathe/pkg/shard"

// clock counts what a trace has taken of its budget.
type clock struct {
	budget    float64           // seconds; 0 for none
	spent     float64           // generation of all messages, and programs that have scores
	generated map[int32]float64 // seconds of messages without a score, by context
}

// newClock reads the seconds of generation from the rollouts, of which scores of the
// wave before hold a part already.
func newClock(budget float64, rows []shard.Rollout, before shard.Score) clock {
	c := clock{budget: budget, generated: map[int32]float64{}}
	if budget == 0 {
		return c
	}
	for _, row := range rows {
		c.generated[row.Part] += row.GenerateSeconds
	}
	for _, turn := range before.Turns {
		c.generated[turn.Part] = max(0, c.generated[turn.Part]-turn.GenerateSeconds)
		c.spent += turn.Seconds()
	}
	for _, seconds := range c.generated {
		c.spent += seconds
	}
	return c
}

// left is what remains for programs; nil without a budget.
func (c clock) left() *float64 {
	if c.budget == 0 {
		return nil
	}
	left := max(0, c.budget-c.spent)
	return &left
}
