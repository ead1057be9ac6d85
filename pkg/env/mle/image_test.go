package mle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestImage: the programs of a recipe with an image run in it, with its interpreter, and
// are graded as others are. The image is a folder whose usr is that of this machine.
func TestImage(t *testing.T) {
	e, of := open(t, func(s *Settings) {
		s.Program.Image, s.Program.Interpreter, s.Instrument, s.Milestones = "$LATHE_TEST_IMAGE", "python3", "rules", "terminal"
	})
	if !sandbox.Probe().Has(sandbox.Paths) {
		t.Skip("this kernel does not give mount namespaces")
	}
	t.Setenv("LATHE_TEST_IMAGE", "/")
	e.runner = newRunner(&e.settings)
	v := must.Get(e.Score(t.Context(), attempt(of, "```python\nimport sys, os; print(sys.executable, os.environ['PATH'])\n"+strings.ReplaceAll(threshold, "CUT", "2.5")+"```")))(t)
	if v.Outcome != shard.OutcomeOK || v.RawScore != 1 || !slices.Contains(v.Milestones, "imported packages") || !strings.Contains(v.Feedback, "/bin/python3 /usr/local/bin:/usr/bin:/bin") {
		t.Errorf("%s, score %v: %s", v.Outcome, v.RawScore, v.Feedback)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	must.Do(t, os.WriteFile(file, []byte("ustar"), 0o600))
	for _, c := range []struct {
		image, interpreter string
		code               int
		says               string
	}{
		{file, "python3", exitcode.Data, "env.program.image: image "},
		{"/nowhere.sif", "python3", exitcode.Unavailable, "no image on this machine"},
		{"/", "python9", exitcode.Unavailable, `the image has no "python9"`},
		{"/", "/usr/bin/env", exitcode.Unavailable, `"/usr/bin/env" in the image`},
		{"/", "/bin/echo", exitcode.Unavailable, `"/bin/echo" in the image is version "-I -c`},
		{"/", "/nowhere/python", exitcode.Unavailable, "/nowhere/python"},
	} {
		e.settings.Program.Image, e.settings.Program.Interpreter = c.image, c.interpreter
		_, err := newRunner(&e.settings).interpreter()
		if exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("image %q, interpreter %q: %v, want code %d and %q", c.image, c.interpreter, err, c.code, c.says)
		}
	}
	for _, root := range []string{"/image", ""} {
		own := interpreter{root: root, path: "/opt/conda/bin/python3"}
		if got := own.searched(); got != "/opt/conda/bin:/usr/local/bin:/usr/bin:/bin" {
			t.Errorf("the PATH of an interpreter in the root %q is %s", root, got)
		}
	}
}
