package policy

import (
	"fmt"
	"math"
)

// RopeScaling changes the frequencies of rotary embedding for contexts that
// are longer than those of pretraining. The zero value changes nothing.
type RopeScaling struct {
	Type   RopeType `json:"rope_type"`
	Factor float64  `json:"factor"` // at least 1

	// Of RopeLlama3: wavelengths above Original/LowFrequencyFactor are
	// stretched by Factor, those below Original/HighFrequencyFactor are left,
	// and those between are mixed.
	LowFrequencyFactor  float64 `json:"low_freq_factor"`
	HighFrequencyFactor float64 `json:"high_freq_factor"`
	Original            int     `json:"original_max_position_embeddings"` // tokens
}

// RopeType names a way of scaling, as config.json does.
type RopeType string

// The ways of scaling.
const (
	RopeDefault RopeType = ""       // none
	RopeLinear  RopeType = "linear" // all frequencies are divided by the factor
	RopeLlama3  RopeType = "llama3" // Llama 3.1 and 3.2
)

func (r RopeScaling) validate() error {
	if r.Type == RopeDefault {
		return nil
	}
	if !(r.Factor >= 1 && r.Factor < 1<<24) {
		return fmt.Errorf("the factor of rope_type %q is %g; it must lie between 1 and 2^24", r.Type, r.Factor)
	}
	switch r.Type {
	case RopeLinear:
		return nil
	case RopeLlama3:
	default:
		return fmt.Errorf("rope_type is %q; default, %s and %s are implemented", r.Type, RopeLinear, RopeLlama3)
	}
	if !(r.LowFrequencyFactor > 0 && r.HighFrequencyFactor > r.LowFrequencyFactor && !math.IsInf(r.HighFrequencyFactor, 0)) {
		return fmt.Errorf("rope_type llama3 has low_freq_factor %g and high_freq_factor %g; the first must be positive and below the second",
			r.LowFrequencyFactor, r.HighFrequencyFactor)
	}
	if r.Original < 1 || r.Original >= 1<<24 {
		return fmt.Errorf("original_max_position_embeddings is %d; it must lie between 1 and 2^24", r.Original)
	}
	return nil
}

// RopeFrequencies returns the HeadDim/2 frequencies of rotary position
// embedding (Su et al., RoFormer, 2021, section 3.2.2): position p rotates the
// pair (i, i+d/2) of a head of width d by p·f_i, with f_i = θ^(-2i/d) scaled.
//
// Every step is rounded to float32, and so must the product p·f_i be, because
// that is how these models were trained and are served. At position 5,000 the
// angle so rounded is 1e-4 and more off the exact one, which can move the
// logits by more than all other rounding of a float32 model together.
func (c Config) RopeFrequencies() []float32 {
	frequencies := make([]float32, c.HeadDim/2)
	for i := range frequencies {
		exponent := float32(2*i) / float32(c.HeadDim)
		f := 1 / float32(math.Pow(float64(float32(c.RopeTheta)), float64(exponent)))
		frequencies[i] = c.RopeScaling.scale(f)
	}
	return frequencies
}

// scale changes one frequency. For llama3, with the wavelength w = 2π/f and
// s = (Original/w - low)/(high - low) limited to [0, 1], it is
//
//	(1-s)·f/Factor + s·f
func (r RopeScaling) scale(f float32) float32 {
	factor := float32(r.Factor)
	switch r.Type {
	case RopeLinear:
		return f / factor
	case RopeLlama3:
		original, low, high := float64(r.Original), r.LowFrequencyFactor, r.HighFrequencyFactor
		wavelength := float32(2*math.Pi) / f
		switch {
		case wavelength < float32(original/high):
			return f
		case wavelength > float32(original/low):
			return f / factor
		}
		s := (float32(original)/wavelength - float32(low)) / float32(high-low)
		return (1-s)*f/factor + s*f
	}
	return f
}
