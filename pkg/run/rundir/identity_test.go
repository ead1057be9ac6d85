package rundir_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestIdentity: who a run is and what it was made from, as run.json has it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	opened, data := runtest.OnFiles(t)
	content, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	want := rundir.Identity{FormatVersion: rundir.FormatVersion, Name: "smoke", Seed: 1, BinaryVersion: "test", RecipeFolder: filepath.Dir(runtest.Smoke()), Host: seal.AttemptFromEnv().Host}
	if diff := cmp.Diff(want, opened.Identity, cmpopts.IgnoreFields(rundir.Identity{}, "RunID", "RecipeSHA256", "TasksSHA256", "Data", "Created")); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	i := opened.Identity
	if !regexp.MustCompile(`^smoke-[0-9a-f]{8}$`).MatchString(i.RunID) || i.Created.IsZero() || len(i.Data) != 2 || i.RecipeSHA256 == "" || i.TasksSHA256 != runtest.Digest(t, opened.Dir.Tasks()) {
		t.Errorf("identity %+v", i)
	}
	found := false
	for _, file := range i.Data {
		found = found || file == rundir.DataFile{Path: data, SHA256: hex.EncodeToString(sum[:])}
	}
	if !found || opened.Graph.RunID != i.RunID || opened.Graph.RecipeSHA256 != i.RecipeSHA256 {
		t.Errorf("data %+v, graph of %q", i.Data, opened.Graph.RunID)
	}
}

// TestPolicySource: a run from a policy folder names it, and refuses what is none.
func TestPolicySource(t *testing.T) {
	t.Parallel()
	folder := draw(t, filepath.Join(t.TempDir(), "drawn"))
	if opened := runtest.Create(t, runtest.Smoke(), fork(folder)...); opened.Identity.PolicySource != folder || opened.Identity.Pool != nil {
		t.Errorf("identity %+v", opened.Identity)
	}
	none, broken := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "config.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	empty := draw(t, filepath.Join(t.TempDir(), "empty")) // without weights and tokens
	for _, name := range []string{"model.safetensors", "tokenizer.json"} {
		if err := os.Remove(filepath.Join(empty, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{fork(none), "is not a policy folder"},
		{fork(broken), "policy.path: "},
		{fork(none, "schedule.apply_shards=auto"), "schedule.apply_shards auto: policy.path: "},
		{fork(empty, "schedule.apply_shards=auto"), "schedule.apply_shards auto: "},
		{fork(empty), "policy.path: "},
		{fork(folder, "warm_start.steps=3", "warm_start.pool="+filepath.Join(none, "pool.parquet"), "warm_start.improve=0", "warm_start.diverge=0"), "warm_start.pool: "},
	} {
		_, err := rundir.Rehearse(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), runtest.Load(t, c.settings...))
		if auto := strings.Contains(c.want, "auto: "); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "apply_shards") != auto {
			t.Errorf("%v: %v, want %q", c.settings, err, c.want)
		}
	}
}

// TestApplyShards: auto is one task for a policy that a run makes, for an adapter and where
// memory suffices, and two or more where it does not; the run keeps the number.
func TestApplyShards(t *testing.T) {
	t.Parallel()
	folder, little := draw(t, filepath.Join(t.TempDir(), "drawn")), "resources.stages.learn.memory_gb=0.00001"
	for _, c := range []struct {
		settings []string
		want     recipe.ApplyShards
	}{
		{[]string{little}, 1},
		{fork(folder), 1},
		{fork(folder, little), 2}, // its weights with their gradients and the optimizer's state are more than 10 kB
		{fork(folder, little, "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0"), 1},
	} {
		settings, dir := append(c.settings, "schedule.apply_shards=auto"), graph.Dir(filepath.Join(t.TempDir(), "run"))
		for range 2 { // made, and opened
			r, err := rundir.Create(t.Context(), dir, runtest.Load(t, settings...), seal.AttemptFromEnv(), "test")
			if err != nil || r.Recipe.Schedule.ApplyShards != c.want {
				t.Errorf("%v: %+v: %v, want %d", settings, r, err, c.want)
			}
		}
		explicit := runtest.Load(t, settings...).Recipe
		explicit.Schedule.ApplyShards = 3
		if err := rundir.SettleApplyShards(&explicit, folder); err != nil || explicit.Schedule.ApplyShards != 3 {
			t.Errorf("%v: %d, %v; want the 3 that are asked for", settings, explicit.Schedule.ApplyShards, err)
		}
	}
}

// TestTeacher: the folder that teaches is pinned by the digest of its files, and has to be
// a policy with the tokens of the one that learns.
func TestTeacher(t *testing.T) {
	t.Parallel()
	folder := draw(t, filepath.Join(t.TempDir(), "teacher"))
	digest, err := seal.ContentSHA256(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	of := func(folder string) []string {
		return []string{"preset=distill", "curriculum.name=uniform", "factors=[]", "advantage.teacher.path=" + folder}
	}
	if r := runtest.Create(t, runtest.Smoke(), of(folder)...); r.Identity.Teacher == nil || *r.Identity.Teacher != (rundir.DataFile{Path: folder, SHA256: digest}) {
		t.Errorf("teacher %+v, want %s with %s", r.Identity.Teacher, folder, digest)
	}
	adapter, mute := t.TempDir(), draw(t, filepath.Join(t.TempDir(), "mute"))
	if err := errors.Join(os.WriteFile(filepath.Join(adapter, "adapter_config.json"), []byte("{}"), 0o666), os.Remove(filepath.Join(mute, "tokenizer.json"))); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{
		adapter: fmt.Sprintf("advantage.teacher.path: %q is an adapter\nmake one policy of adapter and base", adapter),
		mute:    "advantage.teacher.path: teacher", t.TempDir(): "is not a policy folder",
	} {
		if _, err := rundir.Rehearse(t.Context(), graph.Dir(t.TempDir()), runtest.Load(t, of(folder)...)); !strings.Contains(said(err), want) {
			t.Errorf("%s, want %q", said(err), want)
		}
	}
}

// TestTasksOfARun: what a recipe asks of tasks that are not there is refused, and the files
// of a warm start are pinned.
func TestTasksOfARun(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"evaluation.sets=[{name: nowhere, problems: 1}]": `has no set "nowhere"`,
		"curriculum.kinds=[mul]":                         "curriculum.kinds",
		"warm_start.kinds=[mul]":                         "warm_start.kinds",
		"data.train.files=[/nowhere/at.jsonl]":           "/nowhere/at.jsonl",
	} {
		if _, err := rundir.Rehearse(t.Context(), graph.Dir(t.TempDir()), runtest.Load(t, setting)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "sft.jsonl")
	text := strings.Repeat(`{"q": "1+1", "solution": "2"}`+"\n", 4)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	r := runtest.Create(t, runtest.Smoke(), "name=a.b", "warm_start.improve=0", "warm_start.diverge=0", "warm_start.data={files: ["+file+"], prompt: q, completion: solution}")
	if diff := cmp.Diff([]rundir.DataFile{{Path: file, SHA256: hex.EncodeToString(sum[:])}}, r.Identity.WarmStartData); diff != "" {
		t.Errorf("files of the warm start (-want +got):\n%s", diff)
	}
	if !regexp.MustCompile(`^a-b-[0-9a-f]{8}$`).MatchString(r.Identity.RunID) { // a job's name holds no dot
		t.Errorf("run %q has the id %q", r.Identity.Name, r.Identity.RunID)
	}
}

// TestNotes: prompts that leave little room are noted, those that leave none refused.
func TestNotes(t *testing.T) {
	t.Parallel()
	create := func(positions string) ([]string, error) {
		resolved, dir := runtest.Load(t, "policy.new.max_position_embeddings="+positions, "rollout.max_new_tokens=2", "warm_start.steps=0"), graph.Dir(filepath.Join(t.TempDir(), "run"))
		rehearsed, err := rundir.Rehearse(t.Context(), dir, resolved)
		made, errMade := rundir.Create(t.Context(), dir, resolved, seal.AttemptFromEnv(), "test")
		if (err == nil) != (errMade == nil) || err == nil && cmp.Diff(rehearsed, made.Notes) != "" {
			t.Errorf("%s positions: %q and %v rehearsed, made with %v", positions, rehearsed, err, errMade)
		}
		return rehearsed, err
	}
	if notes, err := create("128"); err != nil || len(notes) != 0 {
		t.Errorf("plenty of room: %q, %v", notes, err)
	}
	if notes, err := create("9"); err != nil || len(notes) == 0 {
		t.Errorf("little room: %q, %v", notes, err)
	}
	if _, err := create("4"); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "leaves room for a response") {
		t.Errorf("no room: %v", err)
	}
}

// TestScores: a run takes the scores of another that scores alike, which is said when it is
// made and not later.
func TestScores(t *testing.T) {
	t.Parallel()
	from := runtest.Create(t, runtest.Smoke())
	create := func(dir graph.Dir, scores string, settings ...string) error {
		r, err := rundir.CreateWithScores(t.Context(), dir, runtest.Load(t, settings...), scores, seal.AttemptFromEnv(), "test")
		if err == nil && r.Identity.Scores != scores {
			t.Errorf("scores are taken of %q, want %q", r.Identity.Scores, scores)
		}
		return err
	}
	fresh := func() graph.Dir { return graph.Dir(filepath.Join(t.TempDir(), "run")) }
	taking, without := fresh(), fresh()
	for _, c := range []struct {
		what     string
		dir      graph.Dir
		scores   string
		settings []string
		want     string
	}{
		{"another seed", taking, string(from.Dir), []string{"seed=7"}, ""},
		{"the same again", taking, string(from.Dir), []string{"seed=7"}, ""},
		{"without", without, "", nil, ""},
		{"too late", without, string(from.Dir), nil, "was made without the scores"},
		{"other scores", fresh(), string(from.Dir), []string{"score.embedding=none", "factors=[]"}, "scores responses differently"},
		{"no run", fresh(), t.TempDir(), nil, "opening the run whose scores are to be taken"},
	} {
		if err := create(c.dir, c.scores, c.settings...); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}
