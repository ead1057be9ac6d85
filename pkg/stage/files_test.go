package stage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// TestFiles: inputs are cited by the digests of their manifests; files of a person's own
// are read without them, and only where they may be.
func TestFiles(t *testing.T) {
	t.Parallel()
	rows := []shard.Instance{{InstanceID: "a"}, {InstanceID: "b"}, {InstanceID: "c"}}
	sealed, own := filepath.Join(t.TempDir(), "sealed.parquet"), filepath.Join(t.TempDir(), "own.parquet")
	m, err := shard.Write(sealed, rows, nil, seal.AttemptFromEnv(), seal.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(sealed)
	if err := errors.Join(err, os.WriteFile(own, content, 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		plain bool
		path  string
		cited seal.Input
		code  int
	}{
		{false, sealed, seal.Input{Path: "sealed.parquet", ContentSHA256: m.ContentSHA256}, exitcode.OK},
		{true, sealed, seal.Input{Path: "sealed.parquet", ContentSHA256: m.ContentSHA256}, exitcode.OK},
		{true, own, seal.Input{Path: "own.parquet"}, exitcode.OK},
		{false, own, seal.Input{}, exitcode.Data},
	} {
		f := stage.Files{Cite: filepath.Base, Plain: c.plain}
		all, cited, err := stage.ReadTable[shard.Instance](t.Context(), f, c.path)
		if exitcode.Code(err) != c.code || err == nil && (len(all) != 3 || cited != c.cited) {
			t.Errorf("%s, plain %v: %d rows, cited %+v, %v", filepath.Base(c.path), c.plain, len(all), cited, err)
		}
		if cited, err := f.Verify(t.Context(), c.path); exitcode.Code(err) != c.code || cited != c.cited {
			t.Errorf("%s, plain %v: verified %+v, %v", filepath.Base(c.path), c.plain, cited, err)
		}
		if hints := exitcode.Hints(f.Lost(err)); (len(hints) > len(exitcode.Hints(err))) != (err != nil && !c.plain) {
			t.Errorf("%s, plain %v: hints %q", filepath.Base(c.path), c.plain, hints)
		}
		for _, part := range []struct {
			first, last int
			want        string // ids; ! for an error
		}{{0, 3, "abc"}, {1, 2, "b"}, {3, 3, ""}, {2, 2, ""}, {1, 4, "!"}, {2, 1, "!"}, {4, 5, "!"}} {
			if part.first > part.last && c.plain && c.path == own {
				continue // nobody asks for it
			}
			rows, cited, err := stage.ReadPart[shard.Instance](t.Context(), f, c.path, part.first, part.last)
			got := ""
			for _, row := range rows {
				got += row.InstanceID
			}
			if c.code != exitcode.OK || part.want == "!" {
				if exitcode.Code(err) != exitcode.Data {
					t.Errorf("%s, plain %v, rows %d to %d: %v", filepath.Base(c.path), c.plain, part.first, part.last, err)
				}
			} else if err != nil || got != part.want || cited != c.cited {
				t.Errorf("%s, plain %v, rows %d to %d: %q, cited %+v, %v", filepath.Base(c.path), c.plain, part.first, part.last, got, cited, err)
			}
		}
	}
	if err := errors.New("x"); (stage.Files{}).Lost(err) != err {
		t.Error("another error gets a hint")
	}
	folder := filepath.Join(t.TempDir(), "policy")
	w, err := seal.CreateFolder(folder, seal.AttemptFromEnv())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Path(), "config.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if m, err = w.Commit(seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	cited, err := stage.Files{Cite: filepath.Base}.VerifyPolicy(t.Context(), folder)
	if diff := cmp.Diff([]seal.Input{{Path: "policy", ContentSHA256: m.ContentSHA256}}, cited); diff != "" || err != nil {
		t.Errorf("a policy: %v (-want +got):\n%s", err, diff)
	}
}

// TestJobManifest: what a job knows of its outputs.
func TestJobManifest(t *testing.T) {
	t.Parallel()
	began := time.Unix(7, 0)
	job := stage.Job{Seed: 3, RecipeSHA256: "aa", RunID: "r", Step: 4, Wave: 5, BinaryVersion: "v", EnvironmentInputs: []seal.Input{{Path: "tasks"}}}
	want := seal.Manifest{
		Run: "r", Stage: "score", Iteration: 1, Shard: 2, Of: 6, Step: 4, Wave: 5, Seed: 3, RecipeSHA256: "aa", BinaryVersion: "v", PolicyVersion: -1, Started: began,
		Inputs: []seal.Input{{Path: "own"}, {Path: "tasks"}},
	}
	m := job.Manifest("score", 1, 2, 6, began, seal.Input{Path: "own"})
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if got := stage.Citing(m, []seal.Input{{Path: "first"}}).Inputs; len(got) != 3 || got[0].Path != "first" || len(m.Inputs) != 2 {
		t.Errorf("citing %+v", got)
	}
	if got, want := stage.Sampling(recipe.Rollout{Temperature: 0.5, TopK: 7, TopP: 0.25}), (policy.Sampling{Temperature: 0.5, TopK: 7, TopP: 0.25}); got != want {
		t.Errorf("sampling %+v", got)
	}
	if got := stage.Seconds(1.5); got != 1500*time.Millisecond {
		t.Errorf("1.5 s are %v", got)
	}
	for _, c := range []struct {
		p    recipe.Policy
		want string
	}{
		{recipe.Policy{TemplateDate: "tomorrow"}, "policy.template_date is"},
		{recipe.Policy{Template: map[string]config.Scalar{"x": "{"}}, "policy.template.x"},
	} {
		if _, err := stage.LoadChat(c.p, t.TempDir()); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
