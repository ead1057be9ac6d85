package rundir_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
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
	resolved := runtest.Load(t)
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	folder := filepath.Join(t.TempDir(), "drawn")
	if err == nil {
		err = os.Mkdir(folder, 0o777)
	}
	if err == nil {
		err = warm.InitPolicy(warm.SettingsOf(resolved.Recipe), environment, folder)
	}
	if err != nil {
		t.Fatal(err)
	}
	from := func(folder string, more ...string) []string {
		return append([]string{"policy.new=null", "warm_start.steps=0", "policy.path=" + folder}, more...)
	}
	if opened := runtest.Create(t, runtest.Smoke(), from(folder)...); opened.Identity.PolicySource != folder || opened.Identity.Pool != nil {
		t.Errorf("identity %+v", opened.Identity)
	}
	none, broken := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "config.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{from(none), "is not a policy folder"},
		{from(broken), "policy.path: "},
		{from(folder, "warm_start.steps=3", "warm_start.pool="+filepath.Join(none, "pool.parquet"), "warm_start.improve=0", "warm_start.diverge=0"), "warm_start.pool: "},
	} {
		if _, err := rundir.Rehearse(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), runtest.Load(t, c.settings...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.settings, err, c.want)
		}
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
