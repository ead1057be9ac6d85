package export

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
)

//go:embed tracker.py
var trackerProgram string

// Trackers are the libraries of others that a run's numbers can be logged with.
var Trackers = []string{"wandb", "trackio"}

// Track logs points with a tracker, one of [Trackers], of the Python at hand, into a folder:
// those that an earlier call for the same folder and run has not logged. It returns in words
// how many steps were new. A Python without the tracker is an error of something missing.
func Track(ctx context.Context, python, tracker, folder string, s measure.Summary, points []Point) (string, error) {
	var input bytes.Buffer
	encoder := json.NewEncoder(&input)
	for _, p := range points {
		if err := encoder.Encode(map[string]any{"step": p.Step, "name": p.Name, "value": p.Value}); err != nil {
			return "", err
		}
	}
	program := exec.CommandContext(ctx, python, "-c", trackerProgram, tracker, folder, s.RunID, s.Name)
	var said, complained strings.Builder
	program.Stdin, program.Stdout, program.Stderr = &input, &said, &complained
	if err := program.Run(); err != nil {
		why := strings.TrimSpace(complained.String())
		if last := strings.LastIndexByte(why, '\n'); last >= 0 {
			why = why[last+1:]
		}
		if why == "" || errors.Is(err, exec.ErrNotFound) {
			why = err.Error()
		}
		return "", exitcode.WithHint(exitcode.Unavailablef("logging with %s: %s", tracker, why), "--python names a Python that has it: %s -m pip install %s", python, tracker)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n") // the libraries print too
	return lines[len(lines)-1], nil
}
