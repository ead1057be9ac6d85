package config_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
)

// Settings that were written read back as themselves, and write the same
// bytes: inline and open parts too.
func TestWriteReadRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		was, is := newSettings(), newSettings()
		configtest.Any(t, reflect.ValueOf(was).Elem(), "")
		text := config.Write(was)
		doc, err := config.Parse("written.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if err := doc.Fill(is, config.Options{}); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(was, is); diff != "" {
			t.Fatalf("read back differs (-written +read):\n%s\n%s", diff, text)
		}
		if again := config.Write(is); !bytes.Equal(text, again) {
			t.Fatalf("written again:\n%s\nfirst:\n%s", again, text)
		}
	})
}
