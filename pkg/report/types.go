package report

import "github.com/lathe-rl/lathe/pkg/measure"

// The numbers that a report shows, as package measure has them.
type (
	Summary       = measure.Summary
	Version       = measure.Version
	SetAccuracy   = measure.SetAccuracy
	Corrections   = measure.Corrections
	KindAccuracy  = measure.KindAccuracy
	Submissions   = measure.Submissions
	SubmissionRow = measure.SubmissionRow
	Spread        = measure.Spread
	Iteration     = measure.Iteration
	RewardAudit   = measure.RewardAudit
	Tokens        = measure.Tokens
	Tail          = measure.Tail
)
