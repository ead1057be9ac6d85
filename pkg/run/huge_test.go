package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestHugeRewards: rewards as a metric or a reward of one's own can give them, of one
// action of four, keep no run from its end: they are clipped and their responses named,
// and the ledger is exact. A critic, groups and no baseline at all meet them.
func TestHugeRewards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		huge     string
		want     float64
		settings []string
	}{
		{"no baseline", "-1.7e306", -shard.MaxReward, nil},
		{"groups", "1e308", shard.MaxReward, []string{"preset=verl-grpo", "advantage.name=group"}},
		{"groups, not divided", "-1e308", -shard.MaxReward, []string{"preset=drgrpo", "advantage.name=group", "advantage.scale=none"}},
		{"a critic, whitened", "-1.7e306", -shard.MaxReward, []string{"preset=verl-ppo", "policy.critic=head", "advantage.name=gae", "advantage.whitening=true"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			opened := actionRun(t, append([]string{"env.huge=" + c.huge, "schedule.iterations=2", "rollout.prompts=16", "rollout.group=2", "rollout.shards=2"}, c.settings...)...)
			var mutex sync.Mutex
			var clipped []string
			log := func(format string, args ...any) {
				mutex.Lock()
				defer mutex.Unlock()
				if line := fmt.Sprintf(format, args...); strings.Contains(line, " is clipped to ") {
					clipped = append(clipped, line)
				}
			}
			driver := &drive.Driver{Run: opened, Launcher: runtest.InProcess{T: t, Run: opened, Log: log}, Attempt: seal.AttemptFromEnv(), Version: "test"}
			if err := driver.Drive(t.Context()); err != nil {
				t.Fatal(err)
			}
			runtest.Exact(t, opened)
			huge := 0
			for k := 1; k <= 2; k++ {
				for n := range 2 {
					scores, _, err := shard.Read[shard.Score](t.Context(), opened.Dir.Score(k, n), seal.Options{})
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range scores {
						if s.Reward != c.want {
							continue
						}
						name := fmt.Sprintf("instance %q sample %d: ", s.InstanceID, s.Sample)
						if huge++; !strings.Contains(strings.Join(clipped, "\n"), name) {
							t.Errorf("%snobody says that its reward is clipped", name)
						}
					}
				}
			}
			if huge == 0 || huge != len(clipped) {
				t.Errorf("%d responses have the reward %g, and %d are named", huge, c.want, len(clipped))
			}
		})
	}
}

// TestHugeOwnReward: a reward of one's own that says 1e308 of one response is refused
// for that response, which is named, and the run ends well without it.
func TestHugeOwnReward(t *testing.T) {
	t.Parallel()
	code := `
first = None
def reward(completion, trained=False):
    global first
    if not trained or not completion:
        return 0.5
    first = first or completion
    return 1e308 if completion == first else len(completion) % 3 / 2
`
	data := filepath.Join(t.TempDir(), "train.jsonl")
	var rows strings.Builder
	for i := range 16 {
		fmt.Fprintf(&rows, `{"prompt": "a%c", "answer": "%[1]ca", "letters": 2, "trained": true}`+"\n", 'b'+i)
	}
	if err := os.WriteFile(data, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	opened := runtest.OwnReward(t, code, "data.train.files=["+data+"]", "env.program.processes=1", "rollout.prompts=16", "rollout.group=4", "evaluation.problems=1", "evaluation.samples=1", "evaluation.shards=1")
	var mutex sync.Mutex
	var logged []string
	log := func(format string, args ...any) {
		mutex.Lock()
		logged = append(logged, fmt.Sprintf(format, args...))
		mutex.Unlock()
	}
	driver := &drive.Driver{Run: opened, Launcher: runtest.InProcess{T: t, Run: opened, Log: log}, Attempt: seal.AttemptFromEnv(), Version: "test"}
	if err := driver.Drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := runtest.Exact(t, opened)
	dropped := l.Dropped[string(shard.OutcomeInfra)]
	if dropped == 0 {
		t.Errorf("the ledger is %+v, and a response should be dropped as infra", l)
	}
	if text := strings.Join(logged, "\n"); strings.Count(text, "has no score and is left out (infra): scoring task ") != dropped || !strings.Contains(text, "the reward must be from -1e+18 to 1e+18") {
		t.Errorf("nobody says whose reward is refused:\n%s", text)
	}
}
