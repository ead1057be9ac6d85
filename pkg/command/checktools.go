package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// checkToolUseLines is lathe-score check --env tooluse.
func checkToolUseLines(c *cli.Context) error {
	folder := c.String("data")
	if folder == "" {
		shared := os.Getenv("LATHE_SHARED")
		if shared == "" {
			return exitcode.Usagef("--env tooluse needs --data FOLDER, or LATHE_SHARED set to the folder that holds data/bfcl")
		}
		folder = filepath.Join(shared, "data", "bfcl")
	}
	tasks, err := bfcl.ReadTasks(folder)
	if err != nil {
		return err
	}
	byID := make(map[string]bfcl.Task, len(tasks))
	for _, task := range tasks {
		byID[task.ID] = task
	}
	return checkLines(c, func(line []byte) (any, error) { return checkToolUse(line, byID) })
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
	if err := decode(line, &calls, false); err != nil {
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
