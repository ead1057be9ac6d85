package choose

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

func TestNew(t *testing.T) {
	for _, spec := range []recipe.Curriculum{
		{Name: "uniform"},
		{Name: "exit", Exit: recipe.Exit{BufferSize: 1, Improve: true, Expand: "one"}},
	} {
		chosen, err := New(spec, 1)
		if err != nil || chosen.Name() != spec.Name {
			t.Errorf("%q: %v, %v", spec.Name, chosen, err)
		}
	}
	_, err := New(recipe.Curriculum{Name: "random"}, 1)
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `unknown curriculum "random"`) {
		t.Errorf("unknown name: error %v, want a usage error", err)
	}
	if chosen, err := New(recipe.Curriculum{Name: "exit"}, 1); exitcode.Code(err) != exitcode.Usage || chosen != nil {
		t.Errorf("exit without settings: %v, error %v, want nil and a usage error", chosen, err)
	}
}
