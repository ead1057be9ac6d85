package loss

// What the tests of presets, which stand above this package, share with its
// own.
var (
	Near             = near
	NearAll          = nearAll
	Close64          = close64
	DrawLoss         = drawLoss
	DrawSequence     = drawSequence
	Pad              = pad
	StepWeights      = stepWeights
	One              = one
	MustCoefficients = mustCoefficients
	Penalty          = penalty
	RunStep          = runStep
	CompleteStep     = completeStep
)

// Slope is the derivative of a term.
func (t term) Slope() float64 { return t.slope }
