package recipe_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// A password in a server's address is refused, and not repeated: what a recipe
// says stands in logs and records.
func TestPasswordsInAddresses(t *testing.T) {
	const smoke = "../../jobs/smoke.yaml"
	settings := func(url string) []string {
		return []string{"rollout.remote={server: vllm, url: '" + url + "'}"}
	}
	for _, url := range []string{"http://me:hunter2@host:8000", "https://hunter2@host/v1"} {
		_, err := recipe.Load(smoke, settings(url))
		if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "api_key_env") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"http://host:8000/v1", "file:/tmp/a@b", "http://host/a@b"} {
		if _, err := recipe.Load(smoke, settings(url)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	t.Setenv("LATHE_TEST_SERVER", "http://me:hunter2@host:8000")
	resolved, err := recipe.Load(smoke, settings("$LATHE_TEST_SERVER"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := resolved.Recipe.Rollout.Remote.Resolve(); exitcode.Code(err) != exitcode.Usage || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("from the environment: %v", err)
	}
}
