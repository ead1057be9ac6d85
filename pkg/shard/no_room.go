package shard

import (
	"fmt"
	"slices"
)

// MetricAttempts and MetricNoRoom are, in the manifest of sampled responses, how many
// attempts were begun, and how many of these had a prompt that filled the policy's
// context, so that nothing was said.
const (
	MetricAttempts = "attempts"
	MetricNoRoom   = "no_room"
)

// warnNoRoom is the share of attempts without room above which people are told.
const warnNoRoom = 0.01

// Room counts attempts, and those whose prompts left no room for a response.
type Room struct {
	Attempts int `json:"attempts"`
	NoRoom   int `json:"no_room"`
}

// Add counts what a manifest's metrics say.
func (r *Room) Add(metrics map[string]float64) {
	r.Attempts += int(metrics[MetricAttempts])
	r.NoRoom += int(metrics[MetricNoRoom])
}

// Rooms are those of a run.
type Rooms struct {
	Training   Room `json:"training"`
	Evaluation Room `json:"evaluation"`
}

// Warnings are those of both.
func (r Rooms) Warnings() []string {
	return slices.DeleteFunc([]string{r.Training.warning("training"), r.Evaluation.warning("evaluation")}, func(s string) bool { return s == "" })
}

// warning says that more than 1 % of the attempts of something, such as training, had no
// room; empty where it is not so.
func (r Room) warning(of string) string {
	if float64(r.NoRoom) <= warnNoRoom*float64(r.Attempts) {
		return ""
	}
	return fmt.Sprintf("%d of %d responses of %s (%.1f %%) had no room because their prompts fill the policy's context; use a policy with more positions, or shorter prompts and responses",
		r.NoRoom, r.Attempts, of, 100*float64(r.NoRoom)/float64(r.Attempts))
}
