package rehearsal

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// Text says what a rehearsal came to.
func (r Report) Text(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "miniature of %s on %s\n", r.Recipe, r.Place)
	if len(r.Cuts) > 0 {
		fmt.Fprintf(&b, "  cut to %s\n", strings.Join(r.Cuts, " "))
	}
	var done []string
	for _, d := range []struct {
		what    string
		seconds float64
	}{{"a preemption every", r.PreemptEverySeconds}, {"a node lost every", r.LoseNodeEverySeconds}, {"a time limit of", r.TimeLimitSeconds}} {
		if d.seconds > 0 {
			done = append(done, fmt.Sprintf("%s %s", d.what, time.Duration(d.seconds*float64(time.Second)).Round(time.Millisecond)))
		}
	}
	fmt.Fprintf(&b, "disturbed by %s\n\n", strings.Join(done, ", "))
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "what happened\tto\tattempts\tstopped\tkilled\tlost")
	for _, c := range r.Disturbed {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%.1f s\n", words[c.Cause], c.Stage, c.Attempts, c.Attempts-c.Killed, c.Killed, c.LostSeconds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(r.Disturbed) == 0 {
		b.WriteString("nothing: the run was done first; use shorter durations\n")
	}
	fmt.Fprintf(&b, "\n%s, %d restarted, %.1f s of work lost; %s failed for another reason\n", plural.Count(r.Tasks, "task"), r.BegunAgain, r.LostSeconds, plural.Count(r.OwnFailures, "attempt"))
	fmt.Fprintf(&b, "undisturbed %.1f s, disturbed %.1f s\n", r.UndisturbedSeconds, r.DisturbedSeconds)
	switch {
	case !r.Ended:
		fmt.Fprintf(&b, "the disturbed run did not finish: %s\n", r.Failure)
	case len(r.Faults) > 0:
		fmt.Fprintf(&b, "the disturbed run finished, but is incomplete:\n  %s\n", strings.Join(r.Faults, "\n  "))
	case r.Policy == r.After:
		fmt.Fprintf(&b, "the run survives: the same policy to the last bit, %s (%s compared)\n", r.Policy, plural.Count(r.Compared, "file"))
	case r.Unrepeatable != "":
		fmt.Fprintf(&b, "the disturbed run gave another policy, but not only because of the disturbances: %s\n", r.Unrepeatable)
	default:
		fmt.Fprintf(&b, "the disturbed run gave another policy: %s, undisturbed %s; the first difference is %s\n", r.After, r.Policy, r.First)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

var words = map[executor.Cause]string{
	executor.CausePreempted: "preempted", executor.CauseTimeout: "time limit", executor.CauseNodeFail: "node lost",
}
