package recipe_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
)

// A fingerprint is of what a recipe learns by: a setting that changes results changes it,
// and one that names a run or says where it runs does not, nor one that is the default.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	of := func(settings ...string) string {
		resolved, err := recipe.Load(minimal, settings)
		if err != nil {
			t.Fatal(err)
		}
		return resolved.Recipe.Fingerprint()
	}
	if of("preset=grpo") != of("preset=verl-grpo") {
		t.Error("preset grpo is not that which it stands for")
	}
	same, own := of(), ""
	for setting, differs := range map[string]bool{
		"name=other": false, "description=other": false, "resources.threads=3": false, "policy.compute=float32": false,
		"seed=99": true, "select=[overlong]": true, "select=[{constant_group: {mask: true}}, min_group]": true, "loss.clip_low=0.1": true, "preset=dapo": true,
	} {
		if own = of(setting); (own != same) != differs {
			t.Errorf("%s: another fingerprint %v, want %v", setting, own != same, differs)
		}
	}
}
