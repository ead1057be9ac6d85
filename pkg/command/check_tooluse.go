package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// toolUseJudge returns the checkers of a line of lathe-score check --env
// tooluse, on the tasks of a folder.
func toolUseJudge(folder string) (func(line []byte) (any, error), error) {
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
	return func(line []byte) (any, error) { return checkToolUse(line, byID) }, nil
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

func checkToolUse(line []byte, tasks map[string]bfcl.Task) (any, error) {
	var calls toolCalls
	if err := jsonlines.Decode(line, &calls, false); err != nil {
		return nil, err
	}
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
