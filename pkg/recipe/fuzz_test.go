package recipe_test

import (
	"bytes"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// No text makes the parser panic, and every refusal is a usage error. What is
// accepted is written in one way only.
func FuzzParse(f *testing.F) {
	configtest.Corpus(f, "testdata/good/*.yaml", "testdata/bad/*.yaml", "../../jobs/*.yaml")
	resolved, err := recipe.Load(minimal, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(resolved.YAML)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := recipe.Parse(text)
		if err != nil {
			if exitcode.Code(err) != exitcode.Usage || err.Error() == "" {
				t.Fatalf("%v: exit code %d", err, exitcode.Code(err))
			}
			return
		}
		written := recipe.Write(r)
		back, err := recipe.Parse(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if again := recipe.Write(back); !bytes.Equal(written, again) {
			t.Fatalf("written:\n%s\nthen:\n%s", written, again)
		}
	})
}

func FuzzSetting(f *testing.F) {
	for _, setting := range []string{
		"rollout.shards=3", "a.b=c", "data.train.generate.levels.2=4", "data.train.filter.0.in=[a]", "env.prompts.initial=\"x\\n\"",
		"policy.new={hidden_size: 8}", "loss={kl: {coef: 1e-3}}", "=", "seed=-1", "policy.new=~", "data.train.files.0=''",
	} {
		f.Add(setting)
	}
	f.Fuzz(func(t *testing.T, setting string) {
		if _, err := recipe.Load(minimal, []string{setting}); err != nil && exitcode.Code(err) != exitcode.Usage {
			t.Fatalf("%v: exit code %d", err, exitcode.Code(err))
		}
	})
}
