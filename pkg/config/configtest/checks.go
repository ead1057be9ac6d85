package configtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
)

// Checks tests the checks of settings. A row is what is set, as --set has it with
// spaces between the settings, and the fields that are then refused, in their order,
// spaces between them.
func Checks[S any](t *testing.T, defaults func() *S, check func(settings *S, c *config.Checker), rows map[string]string) {
	t.Helper()
	for set, want := range rows {
		settings := defaults()
		if err := config.Apply(settings, strings.Fields(set), config.Options{}); err != nil {
			t.Fatal(err)
		}
		c := config.NewChecker(settings)
		check(settings, c)
		var got []string
		if err := c.Err("settings"); err != nil {
			lines := strings.Split(err.Error(), "\n")
			for _, line := range lines[min(1, len(lines)-1):] { // several problems stand below a heading
				field, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "settings: "), ": ")
				got = append(got, field)
			}
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("with %q %q are refused, want %q", set, got, want)
		}
	}
}
