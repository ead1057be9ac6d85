package policy

import (
	"fmt"
	"math"
	"slices"
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

	// Of RopeYarn: pairs that turn less than BetaSlow times over Original tokens
	// are stretched by Factor, those that turn more than BetaFast times are left,
	// and those between are mixed. Unless Exact, the pairs where this begins and
	// ends are whole numbers.
	BetaFast float64 `json:"beta_fast,omitempty"` // 0 for 32
	BetaSlow float64 `json:"beta_slow,omitempty"` // 0 for 1
	Exact    bool    `json:"exact,omitempty"`     // truncate is false

	// Of RopeLong: what each frequency is divided by.
	ShortFactors []float64 `json:"short_factor,omitempty"` // in sequences of up to Original tokens
	LongFactors  []float64 `json:"long_factor,omitempty"`  // in longer ones, which policies here have not

	// AttentionFactor is what cosines and sines are multiplied by with RopeYarn and
	// RopeLong; 0 for what follows from the other settings.
	AttentionFactor float64 `json:"attention_factor,omitempty"`
	MScale          float64 `json:"mscale,omitempty"`
	MScaleAllDim    float64 `json:"mscale_all_dim,omitempty"`
}

// RopeType names a way of scaling, as config.json does.
type RopeType string

// The ways of scaling.
const (
	RopeDefault RopeType = ""         // none
	RopeLinear  RopeType = "linear"   // all frequencies are divided by the factor
	RopeLlama3  RopeType = "llama3"   // Llama 3.1 and 3.2
	RopeYarn    RopeType = "yarn"     // Peng et al., YaRN: Efficient Context Window Extension of Large Language Models, ICLR 2024
	RopeLong    RopeType = "longrope" // Ding et al., LongRoPE, ICML 2024, with its factors for short sequences
)

// validate refuses what cannot be computed for heads of which dim values are
// rotated.
func (r RopeScaling) validate(dim int) error {
	if r.Type == RopeDefault {
		return nil
	}
	if !(r.Factor >= 1 && r.Factor < 1<<24) {
		return fmt.Errorf("the factor of rope_type %q is %g; it must lie between 1 and 2^24", r.Type, r.Factor)
	}
	if r.Type == RopeLinear {
		return nil
	}
	if r.Original < 1 || r.Original >= 1<<24 {
		return fmt.Errorf("original_max_position_embeddings is %d; it must lie between 1 and 2^24", r.Original)
	}
	if a := r.attentionFactor(); !(a > 0 && a < 1<<24) {
		return fmt.Errorf("the attention factor of rope_type %q is %g (attention_factor, mscale, mscale_all_dim); it must lie between 0 and 2^24", r.Type, a)
	}
	switch r.Type {
	case RopeLlama3:
		if !(r.LowFrequencyFactor > 0 && r.HighFrequencyFactor > r.LowFrequencyFactor && !math.IsInf(r.HighFrequencyFactor, 0)) {
			return fmt.Errorf("rope_type llama3 has low_freq_factor %g and high_freq_factor %g; the first must be positive and below the second",
				r.LowFrequencyFactor, r.HighFrequencyFactor)
		}
	case RopeYarn:
		fast, slow := r.betas()
		if !(slow > 0 && fast >= slow && fast < 1<<24) {
			return fmt.Errorf("rope_type yarn has beta_fast %g and beta_slow %g; the second must be positive and at most the first", fast, slow)
		}
	case RopeLong:
		for _, factors := range [][]float64{r.ShortFactors, r.LongFactors} {
			if len(factors) != dim/2 {
				return fmt.Errorf("rope_type longrope has %d short and %d long factors; a head has %d pairs", len(r.ShortFactors), len(r.LongFactors), dim/2)
			}
			if i := slices.IndexFunc(factors, func(x float64) bool { return !(x > 1e-6 && x < 1e6) }); i >= 0 {
				return fmt.Errorf("rope_type longrope has the factor %g; it must lie between 10^-6 and 10^6", factors[i])
			}
		}
	default:
		return fmt.Errorf("rope_type is %q; default, %s, %s, %s, %s and dynamic are implemented", r.Type, RopeLinear, RopeLlama3, RopeYarn, RopeLong)
	}
	return nil
}

// RopeFrequencies returns the frequencies of rotary position embedding (Su et
// al., RoFormer, 2021, section 3.2.2): position p rotates the pair (i, i+d/2) of
// the first d values of a head, those of Rotated, by p·f_i, with f_i = θ^(-2i/d)
// scaled. Cosines and sines are then multiplied by factor.
//
// Every step is rounded to float32, and so must the product p·f_i be, because
// that is how these models were trained and are served. At position 5,000 the
// angle so rounded is 1e-4 and more off the exact one, which can move the
// logits by more than all other rounding of a float32 model together.
func (c Config) RopeFrequencies(kind Rope) (frequencies []float32, factor float32) {
	theta, scaling := c.RopeTheta, c.RopeScaling
	if kind == RopeLocal {
		theta, scaling = c.LocalRopeTheta, RopeScaling{}
	}
	d := c.Rotated()
	frequencies = make([]float32, d/2)
	for i := range frequencies {
		power := float32(math.Pow(float64(float32(theta)), float64(float32(2*i)/float32(d))))
		switch scaling.Type {
		case RopeYarn:
			frequencies[i] = scaling.yarn(power, theta, d, i)
		case RopeLong:
			frequencies[i] = 1 / (float32(scaling.ShortFactors[i]) * power)
		default:
			frequencies[i] = scaling.scale(1 / power)
		}
	}
	return frequencies, float32(scaling.attentionFactor())
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

// betas are the numbers of turns between which frequencies are mixed.
func (r RopeScaling) betas() (fast, slow float64) {
	fast, slow = r.BetaFast, r.BetaSlow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	return fast, slow
}

// yarn is the frequency of pair i of d/2, whose power of θ is given. With the
// share s that rises from 0 to 1 between the pairs that turn BetaFast and
// BetaSlow times over the original context, it is
//
//	s/(Factor·power) + (1-s)/power
func (r RopeScaling) yarn(power float32, theta float64, d, i int) float32 {
	pairOf := func(turns float64) float64 {
		return float64(d) * math.Log(float64(r.Original)/(turns*2*math.Pi)) / (2 * math.Log(theta))
	}
	fast, slow := r.betas()
	low, high := pairOf(fast), pairOf(slow)
	if !r.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(d-1))
	if low == high {
		high += 0.001
	}
	stretched := (float32(i) - float32(low)) / float32(high-low)
	kept := 1 - max(0, min(1, stretched))
	return float32(1/(float32(r.Factor)*power)*(1-kept)) + float32(1/power*kept)
}

// attentionFactor is what cosines and sines are multiplied by. Of YaRN it is
// 1 + ln(Factor)/10, or a ratio of two such numbers with MScale; of LongRoPE
// sqrt(1 + ln(Factor)/ln(Original)).
func (r RopeScaling) attentionFactor() float64 {
	scale := func(m float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(r.Factor) + 1
	}
	switch {
	case r.Type != RopeYarn && r.Type != RopeLong:
		return 1
	case r.AttentionFactor != 0:
		return r.AttentionFactor
	case r.Type == RopeLong && r.Factor <= 1:
		return 1
	case r.Type == RopeLong:
		return math.Sqrt(1 + math.Log(r.Factor)/math.Log(float64(r.Original)))
	case r.MScale != 0 && r.MScaleAllDim != 0:
		return scale(r.MScale) / scale(r.MScaleAllDim)
	}
	return scale(1)
}
