package recipe

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
)

// A recipe that was written reads back as itself, and writes the same bytes.
func TestWriteParseRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Defaults()
		chosen := rapid.SampledFrom(env.Axis.Names()).Draw(t, "environment")
		var err error
		if r.Env.Settings, r.Data.Settings, err = env.Defaults(chosen); err != nil {
			t.Fatal(err)
		}
		configtest.Any(t, reflect.ValueOf(&r).Elem(), "")
		r.Env.Name = chosen
		if mix := r.Env.Mix(); mix != nil {
			for i := range mix.Of {
				part := &mix.Of[i]
				if err := part.Open(rapid.SampledFrom(part.Choices("name")).Draw(t, "part")); err != nil {
					t.Fatal(err)
				}
				configtest.Any(t, reflect.ValueOf(part.Settings).Elem(), "")
				configtest.Any(t, reflect.ValueOf(part.Data.Settings).Elem(), "")
			}
		}
		r.Curriculum.Name = rapid.SampledFrom(curriculum.Axis.Names()).Draw(t, "curriculum")
		r.prune()
		r.Preset = rapid.SampledFrom(preset.Axis.Names()).Draw(t, "preset")
		text := Write(&r)
		back, err := parseWhole(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		back.prune()
		if diff := cmp.Diff(&r, back); diff != "" {
			t.Fatalf("read back differs (-written +read):\n%s\n%s", diff, text)
		}
		if again := Write(back); !bytes.Equal(text, again) {
			t.Fatalf("written again:\n%s\nfirst:\n%s", again, text)
		}
	})
}
