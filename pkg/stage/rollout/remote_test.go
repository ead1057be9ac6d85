package rollout_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/remote/remotetest"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

// remoteRig is a rig whose recipe names a server of its policy.
func remoteRig(t *testing.T, dialect string, settings ...string) (*stagetest.Rig, *remotetest.Server) {
	t.Helper()
	server := &remotetest.Server{Dialect: dialect}
	web := httptest.NewServer(server)
	r := stagetest.New(t, append([]string{
		"rollout.remote.url=" + web.URL, "rollout.remote.server=" + dialect, "rollout.remote.backoff_seconds=0.001",
		"rollout.remote.retries=1", "rollout.remote.ready_seconds=5",
	}, settings...)...)
	folder := r.Policy()
	server.Folders = func() []string { return []string{folder} }
	t.Cleanup(func() {
		web.Close()
		r.Check(server.Close())
	})
	return r, server
}

// TestRemoteGreedyIsLocal: a greedy evaluation by a server of our engine is
// that of our engine, step after step, whatever the interface.
func TestRemoteGreedyIsLocal(t *testing.T) {
	t.Parallel()
	measure := func(r *stagetest.Rig) []shard.EvaluationRow {
		rows, err := r.Measure(r.Policy(), 0, 16, 0)
		r.Check(err)
		return slices.DeleteFunc(rows, func(row shard.EvaluationRow) bool { return row.Sample != rollout.GreedySample })
	}
	want := measure(stagetest.New(t))
	if len(want) == 0 {
		t.Fatal("nothing is greedy")
	}
	for _, dialect := range []string{"vllm", "sglang"} {
		for _, api := range []string{"completions", "chat"} {
			r, _ := remoteRig(t, dialect, "rollout.remote.api="+api)
			if diff := cmp.Diff(want, measure(r)); diff != "" {
				t.Errorf("%s %s (-engine +server):\n%s", dialect, api, diff)
			}
		}
	}
}

// TestRemoteTurns: an episode of several turns goes on from the very tokens
// that the server sampled.
func TestRemoteTurns(t *testing.T) {
	t.Parallel()
	r, _ := remoteRig(t, "sglang", "env.prompts.refine={question}={previous_response};", "env.max_turns=3")
	plan, instances := r.Plan(12)
	longest := 0
	for _, row := range sample(r, plan, 0, len(instances), "rollout.parquet") {
		longest = max(longest, int(row.Turns))
		spoken := 0
		for i, own := range row.LossMask {
			if own {
				spoken++
			} else if row.LogProbs[i] != 0 {
				t.Errorf("token %d is not the policy's and has the log-probability %g", i, row.LogProbs[i])
			}
		}
		if spoken != int(row.ResponseTokens) || len(row.Messages) != 2*int(row.Turns) || row.LogProbSource != string(shard.LogProbsServer) || row.Retokenized {
			t.Errorf("%+v", row)
		}
	}
	if longest != 3 {
		t.Errorf("the longest episode has %d turns: the test shows little", longest)
	}
}

// TestRemoteTextIsFlagged: rows of a server that gives text alone say so.
func TestRemoteTextIsFlagged(t *testing.T) {
	t.Parallel()
	r, _ := remoteRig(t, "openai")
	plan, instances := r.Plan(4)
	for _, row := range sample(r, plan, 0, len(instances), "rollout.parquet") {
		if !row.Retokenized || row.LogProbSource != string(shard.LogProbsNone) || slices.ContainsFunc(row.LogProbs, func(p float32) bool { return p != 0 }) {
			t.Errorf("%+v", row)
		}
		if row.Outcome != string(shard.OutcomeOK) || row.ResponseTokens == 0 {
			t.Errorf("%+v", row)
		}
	}
}

// TestRemoteFailures: responses that cannot be had are ours to answer for, up
// to the share that the recipe bears; more of them, and nothing is sealed.
func TestRemoteFailures(t *testing.T) {
	t.Parallel()
	r, server := remoteRig(t, "vllm", "rollout.remote.max_failed=0.25", "rollout.remote.retries=0", "rollout.remote.concurrency=1")
	plan, instances := r.Plan(8)
	every := 8
	server.Tamper = func(n int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		if n%every != every-1 {
			return false
		}
		http.Error(w, "out of memory", http.StatusInternalServerError)
		return true
	}
	rows := sample(r, plan, 0, len(instances), "rollout.parquet")
	failed := 0
	for i, row := range rows {
		if (row.Outcome == string(shard.OutcomeInfra)) != (i%every == every-1) {
			t.Errorf("row %d: outcome %s", i, row.Outcome)
		}
		if row.Outcome == string(shard.OutcomeInfra) {
			failed++
			if row.ResponseTokens != 0 || slices.Contains(row.LossMask, true) {
				t.Errorf("row %d failed and holds a response: %+v", i, row)
			}
		}
	}
	if failed != len(rows)/every {
		t.Errorf("%d of %d rows failed", failed, len(rows))
	}
	every = 3 // and more than a quarter
	_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{
		Plan: plan, LastRow: len(instances), PolicyFolder: r.Policy(), Iteration: 1, Of: 1, Output: r.Path("never.parquet"),
	})
	every = 100
	if exitcode.Code(err) != exitcode.Failed || !strings.Contains(err.Error(), "out of memory") || len(exitcode.Hints(err)) == 0 {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
	if _, err := os.Stat(r.Path("never.parquet")); err == nil {
		t.Error("a shard was sealed with too many failures")
	}
	_, err = r.Measure(r.Policy(), 0, 16, 0)
	if exitcode.Code(err) != exitcode.Failed || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("an evaluation without an answer: exit code %d: %v", exitcode.Code(err), err)
	}
}

// TestRemoteAddressInAFile: whoever starts the server writes where it is.
func TestRemoteAddressInAFile(t *testing.T) {
	r, _ := remoteRig(t, "vllm")
	spec := r.Recipe.Rollout.Remote
	url := spec.URL
	file := r.Path("server.txt")
	t.Setenv("LATHE_TEST_FOLDER", filepath.Dir(file))
	spec.URL = "file:$LATHE_TEST_FOLDER/server.txt"
	plan, instances := r.Plan(1)
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(file, []byte(url+"/v1\n"), 0o666) }()
	if rows := sample(r, plan, 0, len(instances), "rollout.parquet"); len(rows) == 0 {
		t.Error("no rows")
	}
	r.Check(<-written)
	for text, code := range map[string]int{
		"file:relative.txt": exitcode.Usage, "$LATHE_TEST_NOTHING": exitcode.Usage, "file:" + r.Path("nowhere"): exitcode.Unavailable,
	} {
		spec.URL, spec.ReadySeconds = text, 0.1
		_, err := rollout.OpenSampler(r.Context(), rollout.SettingsOf(r.Recipe), r.Job.Process, r.Policy(), 1)
		if exitcode.Code(err) != code {
			t.Errorf("%s: exit code %d: %v", text, exitcode.Code(err), err)
		}
	}
}
