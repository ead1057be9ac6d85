package stage_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStagesTakeTheirSettings: what a stage reads of a recipe stands in the type of its
// settings, because only the functions that fill these see a whole recipe.
func TestStagesTakeTheirSettings(t *testing.T) {
	t.Parallel()
	filled := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && entry.Name() == "internal" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for number, line := range strings.Split(string(text), "\n") {
			switch {
			case strings.HasPrefix(line, "func SettingsOf(r recipe.Recipe) Settings {"):
				filled++
			case strings.Contains(line, "recipe.Recipe"):
				t.Errorf("%s:%d: %s\na stage takes the settings that it reads: add them to the Settings of its package", path, number+1, line)
			}
		}
		return err
	})
	if err != nil || filled == 0 {
		t.Errorf("%d packages fill settings, %v", filled, err)
	}
}
