package stage_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
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
}

// TestVerifyPolicy: of an adapter what it adapts is digested and cited too.
func TestVerifyPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	save := func(name, file, text string) seal.Input {
		w := must.Get(seal.CreateFolder(filepath.Join(dir, name), seal.AttemptFromEnv()))(t)
		must.Do(t, os.WriteFile(filepath.Join(w.Path(), file), []byte(text), 0o666))
		return seal.Input{Path: name, ContentSHA256: must.Get(w.Commit(seal.Manifest{}))(t).ContentSHA256}
	}
	adapter := func(of string) string {
		return `{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "base_model_name_or_path": "` + of + `"}`
	}
	whole := save("policy", "config.json", "{}")
	adapted := save("adapter", checkpoint.AdapterConfigFile, adapter("../policy"))
	save("lost", checkpoint.AdapterConfigFile, adapter("../none"))
	save("odd", checkpoint.AdapterConfigFile, "[]")
	for name, want := range map[string][]seal.Input{"policy": {whole}, "adapter": {adapted, whole}, "lost": nil, "odd": nil, "none": nil} {
		cited, err := stage.Files{Cite: filepath.Base}.VerifyPolicy(t.Context(), filepath.Join(dir, name))
		if want == nil {
			if exitcode.Code(err) != exitcode.Data {
				t.Errorf("%s: %v", name, err)
			}
		} else if diff := cmp.Diff(want, cited); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// engine is a policy of which only what computes it is asked.
type engine struct {
	policy.Model
	unit string
	of   policy.Arithmetic
}

func (e engine) Unit() string                  { return e.unit }
func (e engine) Arithmetic() policy.Arithmetic { return e.of }

// TestNotes: what a manifest says of the engine comes back from it.
func TestNotes(t *testing.T) {
	t.Parallel()
	cpu, gpu := policy.Arithmetic{Backend: "cpu", Products: "bfloat16"}, policy.Arithmetic{Backend: "cuda", Device: "H200", Library: "ab"}
	for _, e := range []engine{{unit: "amx", of: cpu}, {of: gpu}} {
		m := seal.Manifest{Name: "00000.parquet"}
		must.Do(t, stage.NoteEngine(&m, e))
		must.Do(t, stage.NoteSamplers(&m, []policy.Arithmetic{gpu, cpu}))
		unit := must.Get(stage.UnitOf(m))(t)
		of, ok, err := stage.EngineOf(m)
		samplers := must.Get(stage.Samplers(m))(t)
		if unit != e.unit || of != e.of || !ok || err != nil || !slices.Equal(samplers, []policy.Arithmetic{gpu, cpu}) {
			t.Errorf("%+v: unit %q, engine %+v, %v, %v, samplers %+v", e, unit, of, ok, err, samplers)
		}
		if _, there := m.Notes["unit"]; there != (e.unit != "") {
			t.Errorf("%+v: notes %s", e, m.Notes)
		}
	}
	without := seal.Manifest{}
	unit, err := stage.UnitOf(without)
	of, ok, ofErr := stage.EngineOf(without)
	samplers, samplersErr := stage.Samplers(without)
	if unit != "" || ok || of != (policy.Arithmetic{}) || samplers != nil || err != nil || ofErr != nil || samplersErr != nil {
		t.Errorf("without notes: %q, %+v, %v, %+v, %v, %v, %v", unit, of, ok, samplers, err, ofErr, samplersErr)
	}
	broken := seal.Manifest{Name: "00000.parquet", Notes: map[string]json.RawMessage{"engine": json.RawMessage(`7`)}}
	if _, ok, err := stage.EngineOf(broken); ok || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `"00000.parquet" has an unreadable note "engine"`) {
		t.Errorf("an unreadable note: %v, %v", ok, err)
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
