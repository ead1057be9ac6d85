package command_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/data/mle/lists"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mlebench"
)

// gradedCase is a submission that MLE-bench's own grader scored.
type gradedCase struct {
	Competition, Submission, Answers string
	Score                            any
	Invalid                          bool
}

// prepareCompetitions lays out the competitions of MLE-bench as mlebench prepare does, made
// small from the shared cases, and returns of each a case with a finite score, a sample
// submission only where there is no other.
func prepareCompetitions(t *testing.T, folder string) map[string]gradedCase {
	t.Helper()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join(repository, "..", "shared")
	}
	from := filepath.Join(shared, "data", "mlebench", "grade_cases")
	file, err := os.Open(filepath.Join(from, "cases.jsonl"))
	if err != nil {
		t.Skipf("the cases are not here: %v (LATHE_SHARED names the folder that holds data/mlebench)", err)
	}
	defer file.Close()
	chosen := map[string]gradedCase{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c gradedCase
		must.Do(t, json.Unmarshal(lines.Bytes(), &c))
		if _, finite := c.Score.(float64); !finite || c.Invalid {
			continue
		}
		c.Submission, c.Answers = filepath.Join(from, c.Submission), filepath.Join(from, c.Answers)
		sample := func(path string) bool { return strings.Contains(strings.ToLower(filepath.Base(path)), "sample") }
		if old, there := chosen[c.Competition]; !there || sample(old.Submission) {
			chosen[c.Competition] = c
		}
	}
	for id, c := range chosen {
		samples := must.Get(filepath.Glob(filepath.Join(from, id, "*ample*")))(t)
		if len(samples) != 1 {
			t.Fatalf("%s has the sample submissions %q", id, samples)
		}
		prepared := filepath.Join(folder, id, "prepared")
		for to, source := range map[string]string{
			filepath.Join("public", filepath.Base(samples[0])): samples[0],
			filepath.Join("private", filepath.Base(c.Answers)): c.Answers,
		} {
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(prepared, to)), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(prepared, to), must.Get(os.ReadFile(source))(t), 0o644))
		}
		must.Do(t, os.WriteFile(filepath.Join(prepared, "public", "description.md"), []byte("Competition "+id+".\n"), 0o644))
	}
	return chosen
}

// TestAllCompetitions: the 75 competitions of MLE-bench, as it prepares them, are imported,
// a dry run of MLE-RL's recipe plans all of them, and a program that submits
// something to each has the score of MLE-bench's grader.
func TestAllCompetitions(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "mle-bench")
	chosen := prepareCompetitions(t, folder)
	top := honestTop(t)
	lathe(t, exitcode.OK, "data", "import", "mle-bench", folder)

	all := must.Get(lists.Lookup("mle-bench"))(t)
	began := time.Now()
	e := lathe(t, exitcode.OK, "run", repository+"/jobs/mlerl/mlerl.yaml", "--run", filepath.Join(top, "run"), "--dry-run",
		"--set", "data.tasks=["+folder+"]", "--set", `data.train=["list:mle-bench-dev"]`, "--set", `data.test=["list:mle-bench"]`,
		"--set", fmt.Sprintf("evaluation.problems=%d", len(all)), "--set", fmt.Sprintf("evaluation.shards=%d", len(all)),
		"--set", "policy.path=", "--set", "policy.backend=auto", "--set", "policy.lora=null", "--set", "schedule.apply_shards=1",
		"--set", "policy.new={hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 131072}")
	t.Logf("the dry run takes %v", time.Since(began))
	// 75 shards in each of two evaluations after the first, and in it.
	if len(all) != 75 || !strings.Contains(e.stdout, " 225 evaluate,") {
		t.Errorf("%d competitions, and the dry run says\n%s", len(all), e.stdout)
	}

	var lines strings.Builder
	for _, id := range all {
		c, there := chosen[id]
		if !there {
			t.Errorf("there is no case of %s", id)
			continue
		}
		text := base64.StdEncoding.EncodeToString(must.Get(os.ReadFile(c.Submission))(t))
		must.Do(t, json.NewEncoder(&lines).Encode(map[string]string{
			"id": id, "task": filepath.Join(folder, id), "program": "import base64; open('submission.csv','wb').write(base64.b64decode('" + text + "'))",
		}))
	}
	path := filepath.Join(top, "lines.jsonl")
	must.Do(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	scored := execute(t, nil, "sh", "-c", `lathe-score check --env mle --interpreter /usr/bin/python3 --wall-seconds 600 <"$0"`, path)
	if scored.code != exitcode.OK {
		t.Fatalf("exit code %d: %s", scored.code, scored.stderr)
	}
	scores := 0
	for line := range strings.Lines(scored.stdout) {
		var answer struct {
			ID, Outcome, Feedback string
			Score                 *float64
		}
		must.Do(t, json.Unmarshal([]byte(line), &answer))
		want := mlebench.Round(chosen[answer.ID].Score.(float64))
		if answer.Score == nil || math.Abs(*answer.Score-want) > 1e-9*max(1, math.Abs(want)) {
			t.Errorf("%s: %s", answer.ID, line)
			continue
		}
		scores++
	}
	if scores != len(all) {
		t.Errorf("%d of %d competitions have a score", scores, len(all))
	}
}
