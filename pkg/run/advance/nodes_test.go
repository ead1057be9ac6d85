package advance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
)

func TestFaultyNodes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type end struct {
		node       string
		minutesAgo int
		cause      executor.Cause
	}
	for name, c := range map[string]struct {
		ends []end
		want []string
	}{
		"nothing":                {nil, nil},
		"one fault":              {[]end{{"n1", 5, executor.CauseIO}}, nil},
		"two":                    {[]end{{"n2", 5, executor.CauseIO}, {"n2", 1, executor.CauseNodeFail}, {"n1", 9, executor.CauseUnavailable}, {"n1", 8, executor.CauseLaunchFailed}}, []string{"n1", "n2"}},
		"one is too long ago":    {[]end{{"n1", 60, executor.CauseIO}, {"n1", 1, executor.CauseIO}}, nil},
		"well afterwards":        {[]end{{"n1", 5, executor.CauseIO}, {"n1", 4, executor.CauseIO}, {"n1", 3, executor.CauseOK}}, nil},
		"well before":            {[]end{{"n1", 5, executor.CauseOK}, {"n1", 4, executor.CauseIO}, {"n1", 3, executor.CauseIO}}, []string{"n1"}},
		"well, and twice again":  {[]end{{"n1", 9, executor.CauseIO}, {"n1", 8, executor.CauseOK}, {"n1", 4, executor.CauseIO}}, nil},
		"what is nobody's fault": {[]end{{"n1", 5, executor.CauseTimeout}, {"n1", 4, executor.CausePreempted}, {"n1", 3, executor.CauseBug}, {"n1", 2, executor.CauseData}}, nil},
		"one GPU":                {[]end{{"n1", 5, executor.CauseDevice}, {"n2", 4, executor.CauseDevice}, {"n2", 3, executor.CauseOK}}, []string{"n1"}},
		"no node":                {[]end{{"", 5, executor.CauseIO}, {"", 4, executor.CauseIO}, {"n[1-2]", 3, executor.CauseIO}, {"n[1-2]", 2, executor.CauseIO}}, nil},
	} {
		var records nodeRecords
		for _, e := range c.ends {
			state := slurm.State{Nodes: e.node, End: now.Add(-time.Duration(e.minutesAgo) * time.Minute)}
			if e.cause == executor.CauseOK {
				records.wentWell(state)
			} else {
				records.failed(state, e.cause)
			}
		}
		if diff := cmp.Diff(c.want, records.faulty(now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
