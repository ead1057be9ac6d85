package graph

import (
	"regexp"
	"strconv"
)

// taskPattern is what [Task.String] writes, and the number of an attempt behind it.
var taskPattern = regexp.MustCompile(`^([a-z]+)-(\d{6,})(?:-step(\d{3,})|-w(\d{2,}))?-(\d{5,})(?:\.(\d+))?$`)

// ParseTask reads the name of a task, perhaps with an attempt behind it, as the
// names of logs and of records have them: rollout-000003-w01-00002.0.
func ParseTask(name string) (t Task, attempt int, ok bool) {
	found := taskPattern.FindStringSubmatch(name)
	if found == nil {
		return Task{}, 0, false
	}
	var err error
	number := func(text string) int {
		if text == "" {
			return 0
		}
		n, parseErr := strconv.Atoi(text)
		if parseErr != nil {
			err = parseErr
		}
		return n
	}
	t.Stage = Stage(found[1])
	t.Iteration, t.Step, t.Wave = number(found[2]), number(found[3]), number(found[4])
	t.Shard, attempt = number(found[5]), number(found[6])
	return t, attempt, err == nil
}
