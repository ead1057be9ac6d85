package mle

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// weightFolders are the folders of env.program.read, with their links followed.
func weightFolders(names []string) ([]string, error) {
	folders, err := config.ResolvePaths(names, "")
	if err != nil {
		return nil, fmt.Errorf("env.program.read: %w", err)
	}
	for i, folder := range folders {
		path, err := filepath.EvalSymlinks(folder)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if info, errStat := os.Stat(path); err != nil || errStat != nil || !info.IsDir() {
			return nil, exitcode.WithHint(exitcode.Unavailablef("env.program.read: %q is no folder on this machine", folder),
				"put the weights there, or name the folder that has them")
		}
		folders[i] = path
	}
	return folders, nil
}

// weightVariables say to Hugging Face's libraries and to torch where weights are, and
// that there is no network to look for more.
func weightVariables(folders []string) []string {
	if len(folders) == 0 {
		return nil
	}
	first := func(pattern string) string {
		for _, folder := range folders {
			if found, err := filepath.Glob(filepath.Join(folder, pattern)); err == nil && len(found) > 0 {
				return folder
			}
		}
		return folders[0]
	}
	return []string{
		"HF_HOME=" + first("hub/models--*"), "TORCH_HOME=" + first("hub/checkpoints"),
		"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1",
	}
}
