package mle

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/data/mle/lists"
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

//go:embed heldout.go
var heldOutSource string

var _ = config.Docs[HeldOut](heldOutSource)

// HeldOut is a set of held-out tasks beside data.test, to be measured by evaluation.sets.
type HeldOut struct {
	Name  string   `yaml:"name"`  // of the set
	Tasks []string `yaml:"tasks"` // names, patterns or lists, as in data.train
}

// listed begins the name of a list of competitions in the place of a task's.
const listed = "list:"

// maxList bounds the file of a list.
const maxList = 1 << 20

// sets are the held-out sets of a recipe, the test split first.
func (d *Data) sets() []HeldOut {
	return append([]HeldOut{{string(env.Test), d.Test}}, d.HeldOut...)
}

// expanded is the data with the tasks of lists in their place.
func (d *Data) expanded(folder string) (own Data, err error) {
	own = *d
	if own.Train, err = expand("data.train", d.Train, folder); err != nil {
		return own, err
	}
	if own.Test, err = expand("data.test", d.Test, folder); err != nil {
		return own, err
	}
	own.HeldOut = slices.Clone(d.HeldOut)
	for i, set := range d.HeldOut {
		if own.HeldOut[i].Tasks, err = expand(fmt.Sprintf("data.held_out.%d.tasks", i), set.Tasks, folder); err != nil {
			return own, err
		}
	}
	return own, nil
}

// expand puts the tasks of lists in the place of their names: of those that are built in
// or, of a name that ends with .txt, of a file.
func expand(field string, names []string, folder string) ([]string, error) {
	var all []string
	for _, name := range names {
		list, is := strings.CutPrefix(name, listed)
		switch {
		case !is:
			all = append(all, name)
		case filepath.Ext(list) == ".txt":
			path, err := config.ResolvePath(list, folder)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field, err)
			}
			text, err := plainfile.Read(path, maxList)
			if err != nil {
				return nil, exitcode.Usagef("%s: %w", field, err)
			}
			all = append(all, lists.Read(string(text))...)
		default:
			tasks, err := lists.Lookup(list)
			if err != nil {
				return nil, exitcode.Usagef("%s: %w; a file of one name a line is named %sFILE.txt", field, err, listed)
			}
			all = append(all, tasks...)
		}
	}
	return all, nil
}

// apart says which tasks are not trained on: those of held-out sets that data.trained does
// not name, and those that have the same answers.
func (d *Data) apart(tasks []*task.Task) map[string]bool {
	apart := map[string]bool{} // names and digests of answers
	for _, set := range d.sets() {
		if slices.Contains(d.Trained, set.Name) {
			continue
		}
		for _, t := range tasks {
			if d.has(set, t) {
				apart[t.Name], apart[t.Input(t.Answers)] = true, true
			}
		}
	}
	return apart
}

// has reports whether a set has a task. Where neither data.train nor data.test names one,
// a task's own file says its split.
func (d *Data) has(set HeldOut, t *task.Task) bool {
	if set.Name == string(env.Test) && len(d.Train)+len(d.Test) == 0 {
		return t.Split == set.Name
	}
	return config.Matches(t.Name, set.Tasks)
}

// trains reports whether data.train has a task.
func (d *Data) trains(t *task.Task) bool {
	if len(d.Train)+len(d.Test) == 0 {
		return t.Split == string(env.Train)
	}
	return config.Matches(t.Name, d.Train)
}

// validate checks the sets.
func (d *Data) validate(c *config.Checker) {
	if len(d.Tasks) == 0 {
		c.Add("data.tasks", nil, "is empty: name a folder of tasks")
	}
	named := map[string]bool{}
	for i, set := range d.HeldOut {
		field := fmt.Sprintf("data.held_out.%d", i)
		env.CheckSetName(c, field+".name", set.Name, named)
		if len(set.Tasks) == 0 {
			c.Add(field+".tasks", nil, "is empty: name tasks")
		}
	}
	named[string(env.Test)] = true
	for _, name := range d.Trained {
		if !named[name] {
			c.Add("data.trained", name, "is no set of held-out tasks: test, or a name of data.held_out")
		}
	}
}
