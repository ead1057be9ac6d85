package tooluse

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

//go:embed check.go
var checkSource string

var _ = config.Docs[checkSettings](checkSource)

// checkSettings are the flags of the checker.
type checkSettings struct {
	Data string `yaml:"data"` // the `FOLDER` with BFCL's tasks (default: data/bfcl in the folder that LATHE_SHARED names)
}

var checker = env.LineChecker{
	Doc: `a line is {"id", "turns": [[{"name", "args"}...]...]}, where id names a task of BFCL multi-turn-base, and its score
{"id", "official_valid", "error_type", "state_equal", "calls_subset", "reward"}; the first two are BFCL's checker's, the others ExIt's`,
	Settings: func() any { return new(checkSettings) },
	Line:     func() any { return new(toolCalls) },
	Verifier: func(settings any) (func(line any) (any, error), error) {
		tasks, err := readTasks(settings.(*checkSettings).Data)
		if err != nil {
			return nil, err
		}
		return func(line any) (any, error) { return check(*line.(*toolCalls), tasks) }, nil
	},
}

// readTasks reads the tasks of a folder by their ids.
func readTasks(folder string) (map[string]bfcl.Task, error) {
	if folder == "" {
		shared := os.Getenv("LATHE_SHARED")
		if shared == "" {
			return nil, exitcode.Usagef("--env tooluse needs --data FOLDER, or LATHE_SHARED set to the folder that holds data/bfcl")
		}
		folder = filepath.Join(shared, "data", "bfcl")
	}
	tasks, err := bfcl.ReadTasks(folder)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]bfcl.Task, len(tasks))
	for _, task := range tasks {
		byID[task.ID] = task
	}
	return byID, nil
}

// toolCalls is a line for the tool-use checkers: the calls of each turn.
type toolCalls struct {
	ID    *string       `json:"id"`
	Turns [][]bfcl.Call `json:"turns"`
}

// toolVerdict is its row.
type toolVerdict struct {
	ID            string  `json:"id"`
	OfficialValid bool    `json:"official_valid"`
	ErrorType     *string `json:"error_type"` // null when the official checker agrees
	StateEqual    bool    `json:"state_equal"`
	CallsSubset   bool    `json:"calls_subset"`
	Reward        float64 `json:"reward"`
}

func check(calls toolCalls, tasks map[string]bfcl.Task) (any, error) {
	if calls.ID == nil || calls.Turns == nil {
		return nil, errors.New(`"id" and "turns" must both be there`)
	}
	task, known := tasks[*calls.ID]
	if !known {
		return nil, fmt.Errorf("there is no task %q", *calls.ID)
	}
	verdict, err := bfcl.Check(task, calls.Turns)
	if err != nil {
		return nil, err
	}
	row := toolVerdict{
		ID: task.ID, OfficialValid: verdict.Official, StateEqual: verdict.StateEqual, CallsSubset: verdict.CallsSubset, Reward: verdict.Reward,
	}
	if !verdict.Official {
		row.ErrorType = &verdict.ErrorType
	}
	return row, nil
}
