package site_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

const jobsFolder = "../../jobs"

func TestBadSites(t *testing.T) {
	t.Parallel()
	configtest.Bad(t, "testdata/bad", func(path string) error {
		_, err := site.Load(path)
		return err
	})
}

func TestGoodSites(t *testing.T) {
	t.Parallel()
	for _, path := range configtest.Glob(t, "testdata/good/*.yaml") {
		resolved, err := site.Load(path)
		if err != nil {
			t.Error(err)
			continue
		}
		// The written profile reads back to the same bytes.
		again := filepath.Join(t.TempDir(), "again.yaml")
		if err := os.WriteFile(again, resolved.YAML, 0o644); err != nil {
			t.Fatal(err)
		}
		back, err := site.Load(again)
		if err != nil {
			t.Error(err)
		} else if back.SHA256 != resolved.SHA256 {
			t.Errorf("%s reads back as\n%s\nwant\n%s", path, back.YAML, resolved.YAML)
		}
	}
}

func TestStage(t *testing.T) {
	t.Parallel()
	resolved, err := site.Load("testdata/good/full.yaml", "throttle=8", "stages.learn.throttle=2")
	if err != nil {
		t.Fatal(err)
	}
	profile := resolved.Site
	score, err := profile.Stage("score")
	if err != nil {
		t.Fatal(err)
	}
	if score.Partition != "cpu" || score.QOS != "high" || score.Throttle != 8 {
		t.Errorf("score: partition %q, qos %q, throttle %d", score.Partition, score.QOS, score.Throttle)
	}
	if want := []string{"module purge", "module load cuda/12.4", "module unload cuda"}; !slices.Equal(score.Setup, want) {
		t.Errorf("score: setup %q, want %q", score.Setup, want)
	}
	if want := append(slices.Clone(profile.Extra), "--nice=10"); !slices.Equal(score.Extra, want) {
		t.Errorf("score: extra %q, want %q", score.Extra, want)
	}
	learn, err := profile.Stage("learn")
	if err != nil {
		t.Fatal(err)
	}
	if learn.Partition != "gpu,preempt" || learn.Throttle != 2 || !slices.Equal(learn.Extra, profile.Extra) {
		t.Errorf("learn: %+v", learn)
	}
	if _, err := profile.Stage("training"); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an unknown stage: %v, want a bug", err)
	}
	if !profile.Skips("--mem") || profile.Skips("--time") {
		t.Error("skip holds --mem and not --time")
	}
}

func TestFindSite(t *testing.T) {
	// Neither of the built-in profiles needs a file, and the shipped files say
	// what is built in.
	for name, executor := range map[string]string{"local": "local", "generic": "slurm"} {
		builtin, err := site.Load(name)
		if err != nil || builtin.Path != "" || builtin.Site.Name != name || builtin.Site.Executor != executor {
			t.Fatalf("the built-in site %s: %+v, %v", name, builtin, err)
		}
		shipped, err := site.Load(filepath.Join(jobsFolder, "sites", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		shipped.Site.Description = ""
		if diff := cmp.Diff(builtin.Site, shipped.Site); diff != "" {
			t.Errorf("site %s (-built in +shipped):\n%s", name, diff)
		}
	}
	t.Setenv(site.Folders, "testdata/good"+string(os.PathListSeparator)+jobsFolder+"/sites")
	for name, want := range map[string]string{
		"full":                    "testdata/good/full.yaml",
		"devcluster":              jobsFolder + "/sites/devcluster.yaml",
		"generic":                 jobsFolder + "/sites/generic.yaml",
		"testdata/good/full.yaml": "testdata/good/full.yaml",
	} {
		resolved, err := site.Load(name)
		if err != nil || resolved.Path != filepath.FromSlash(want) {
			t.Errorf("%s: %+v, %v; want %s", name, resolved, err, want)
		}
	}
	for name, want := range map[string]string{
		"hilbert":     `site profile "hilbert" not found: looked for testdata/good/hilbert.yaml, ../../jobs/sites/hilbert.yaml, jobs/sites/hilbert.yaml`,
		"./none.yaml": `site profile "./none.yaml" does not exist`,
	} {
		if _, err := site.Load(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := site.Load("local", "gpu_flg=gpus"); err == nil ||
		err.Error() != `--set gpu_flg=gpus: unknown field "gpu_flg"; did you mean "gpu_flag"?` {
		t.Errorf("a bad setting: %v", err)
	}
}

func TestShippedSites(t *testing.T) {
	t.Setenv(site.Folders, jobsFolder+"/sites")
	for _, path := range configtest.Glob(t, jobsFolder+"/sites/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		resolved, err := site.Load(name)
		if err != nil {
			t.Error(err)
		} else if resolved.Site.Name != name || resolved.Path != path {
			t.Errorf("site %q at %q, want %q at %q", resolved.Site.Name, resolved.Path, name, path)
		}
	}
}

func FuzzSite(f *testing.F) {
	configtest.Corpus(f, "testdata/good/*.yaml", "testdata/bad/*.yaml", "../../jobs/sites/*.yaml")
	path := filepath.Join(f.TempDir(), "site.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := site.Load(path); err != nil && exitcode.Code(err) != exitcode.Usage {
			t.Fatalf("%v: exit code %d", err, exitcode.Code(err))
		}
	})
}
