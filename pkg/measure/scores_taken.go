package measure

import (
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// ScoresTaken counts the score files of a run that takes the scores of another
// (lathe run --scores). The other files were scored again, since what they are made from
// differs; the logs of their tasks say in what.
type ScoresTaken struct {
	From  string `json:"from"`  // folder of the other run
	Taken int    `json:"taken"` // score files that have its scores
	Files int    `json:"files"` // score files in all, those of evaluations included
}

// scoresTaken is nil for a run that takes none.
func scoresTaken(tasks []finishedTask, from string) *ScoresTaken {
	if from == "" {
		return nil
	}
	s := &ScoresTaken{From: from}
	for _, t := range tasks {
		if t.Stage != graph.StageScore && t.Stage != graph.StageEvalScore {
			continue
		}
		for _, o := range t.outputs {
			s.Files++
			// An input with a whole path is of another run.
			if slices.ContainsFunc(o.manifest.Inputs, func(input seal.Input) bool { return filepath.IsAbs(input.Path) }) {
				s.Taken++
			}
		}
	}
	return s
}
