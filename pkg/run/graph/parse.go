package graph

import (
	"regexp"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// nodeForm is what [Node.String] writes; behind it may come a shard, and the number of
// an attempt.
const nodeForm = `^([a-z]+)-(\d{6,})(?:-step(\d{3,})|-w(\d{2,}))?`

var (
	taskPattern = lazyregexp.New(nodeForm + `-(\d{5,})(?:\.(\d+))?$`)
	nodePattern = lazyregexp.New(nodeForm + `\.(\d+)$`)
)

// ParseTask reads the name of a task, perhaps with an attempt behind it, as the
// names of logs and of records have them: rollout-000003-w01-00002.0.
func ParseTask(name string) (t Task, attempt int, ok bool) {
	n, rest, ok := parse(taskPattern(), name)
	if !ok {
		return Task{}, 0, false
	}
	return Task{n, rest[0]}, rest[1], true
}

// ParseNode reads the name of a node with an attempt behind it, as the records of
// submissions have them: rollout-000003-w01.0.
func ParseNode(name string) (n Node, attempt int, ok bool) {
	n, rest, ok := parse(nodePattern(), name)
	if !ok {
		return Node{}, 0, false
	}
	return n, rest[0], true
}

// parse reads a node and the numbers behind it; a number that is left out is 0.
func parse(pattern *regexp.Regexp, name string) (n Node, rest []int, ok bool) {
	found := pattern.FindStringSubmatch(name)
	if found == nil {
		return Node{}, nil, false
	}
	numbers := make([]int, len(found))
	for i := 2; i < len(found); i++ {
		if found[i] == "" {
			continue
		}
		var err error
		if numbers[i], err = strconv.Atoi(found[i]); err != nil {
			return Node{}, nil, false
		}
	}
	return Node{Stage: Stage(found[1]), Iteration: numbers[2], Step: numbers[3], Wave: numbers[4]}, numbers[5:], true
}
