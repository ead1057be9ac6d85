package rundir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A survey works backwards from the goals, so a file that everything later was
// already made from is never missed. Whoever wants such a file back puts it into
// the repair queue, and surveys take what is in it for goals too.

func repairsPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "repairs.json") }

// QueueRepairs adds to the files, relative to the run, that are to be made
// again.
func QueueRepairs(d graph.Dir, files []string, attempt seal.Attempt) error {
	before, err := ReadRepairs(d)
	if err != nil {
		return err
	}
	all := append(before, files...)
	sort.Strings(all)
	content, err := json.MarshalIndent(slices.Compact(all), "", "  ")
	if err != nil {
		return err
	}
	return seal.Replace(repairsPath(d), append(content, '\n'), attempt)
}

// ReadRepairs lists the files in the repair queue, relative to the run; those
// that are there again are still in it.
func ReadRepairs(d graph.Dir) ([]string, error) {
	content, err := plainfile.Read(repairsPath(d), plainfile.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	if err := json.Unmarshal(content, &files); err != nil {
		return nil, exitcode.WithHint(exitcode.Dataf("%q is not a list of files: %w", repairsPath(d), err), "remove it and run: lathe verify --repair %s", d)
	}
	return files, nil
}
