package mlebench

import (
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// Program grades the bytes of a submission by a task's own program. A [GraderError] is
// the program's; every other error is the submission's.
type Program func(submission []byte) (score float64, err error)

// GraderError is an error of a task's own grader: nothing is known of the submission.
type GraderError struct{ Err error }

func (e *GraderError) Error() string { return e.Err.Error() }
func (e *GraderError) Unwrap() error { return e.Err }

// The bytes that a submission to a program may have, whatever the answers have, and for
// each of their bytes.
const (
	bytesForProgram     = 64 << 20
	bytesForProgramEach = 16
)

// OpenProgram is a competition that a program grades, once [Competition.By] has given it
// one. Its submissions are bounded by the bytes of its answers. A board whose direction is
// another one is a data error.
func OpenProgram(id string, direction metric.Direction, answerBytes int64, board Board) (*Competition, error) {
	if !board.Empty() && board.LowerIsBetter() != (direction == metric.Minimize) {
		return nil, exitcode.Dataf("the direction is %s, and the leaderboard runs from %v to %v", direction, board.scores[0], board.scores[len(board.scores)-1])
	}
	return &Competition{
		spec: Spec{ID: id}, metric: metric.Metric{Direction: direction}, board: board,
		most: bounds{bytes: bytesForProgram + bytesForProgramEach*answerBytes},
		program: func([]byte) (float64, error) {
			return 0, &GraderError{exitcode.Bugf("the competition %q has no program yet", id)}
		},
	}, nil
}

// By is the competition with the program that grades its submissions.
func (c *Competition) By(program Program) *Competition {
	by := *c
	by.program = program
	return &by
}
