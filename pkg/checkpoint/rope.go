package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// ropeJSON is rope_scaling, or rope_parameters of transformers 5.
type ropeJSON struct {
	Factor              float64   `json:"factor,omitempty"`
	HighFrequencyFactor float64   `json:"high_freq_factor,omitempty"`
	LowFrequencyFactor  float64   `json:"low_freq_factor,omitempty"`
	Original            *int      `json:"original_max_position_embeddings,omitempty"`
	BetaFast            float64   `json:"beta_fast,omitempty"`
	BetaSlow            float64   `json:"beta_slow,omitempty"`
	AttentionFactor     float64   `json:"attention_factor,omitempty"`
	MScale              float64   `json:"mscale,omitempty"`
	MScaleAllDim        float64   `json:"mscale_all_dim,omitempty"`
	Truncate            *bool     `json:"truncate,omitempty"`
	ShortFactor         []float64 `json:"short_factor,omitempty"`
	LongFactor          []float64 `json:"long_factor,omitempty"`
	Type                string    `json:"rope_type,omitempty"`
	OldType             string    `json:"type,omitempty"`
	Theta               float64   `json:"rope_theta,omitempty"`
	PartialRotaryPart   *float64  `json:"partial_rotary_factor,omitempty"`
}

// The types of layers in layer_types, and the keys of a rope_parameters that says
// something else for each.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// defaultTheta is rope_theta where config.json and the family say nothing.
const defaultTheta = 10_000

// parseRope reads a value of rope_scaling or rope_parameters.
func parseRope(raw json.RawMessage) (r ropeJSON, err error) {
	if !isSet(raw) {
		return ropeJSON{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // a setting that is not known may change results
	if err := decoder.Decode(&r); err != nil {
		return ropeJSON{}, fmt.Errorf("rotary embedding (rope_scaling, rope_parameters): %w", err)
	}
	r.Type = cmp.Or(r.Type, r.OldType)
	return r, nil
}

// rope reads θ, the scaling and what of a head is rotated as transformers 5 does:
// of rope_scaling and rope_parameters the first that is not empty counts, and a θ
// in it counts before the one beside it. With local, layers with a window have a θ
// of their own, and no scaling.
func (f *configJSON) rope(c *policy.Config, local bool) error {
	raw := f.RopeScaling
	if !isSet(raw) || string(raw) == "{}" {
		raw = f.RopeParameters
	}
	c.RopeTheta = cmp.Or(f.RopeTheta, defaultTheta)
	if local {
		c.LocalRopeTheta = cmp.Or(f.RopeLocalBase, c.RopeTheta)
		var nested struct {
			Full    json.RawMessage `json:"full_attention"`
			Sliding json.RawMessage `json:"sliding_attention"`
		}
		if isSet(raw) && json.Unmarshal(raw, &nested) == nil && (isSet(nested.Full) || isSet(nested.Sliding)) {
			raw = nested.Full
			r, err := parseRope(nested.Sliding)
			if err != nil {
				return err
			}
			if r.Type != "" && r.Type != "default" {
				return fmt.Errorf("rope_type of layers with a window is %q; only default is implemented", r.Type)
			}
			c.LocalRopeTheta = cmp.Or(r.Theta, c.LocalRopeTheta)
		}
	}
	r, err := parseRope(raw)
	if err != nil {
		return err
	}
	c.RopeTheta = cmp.Or(r.Theta, c.RopeTheta)
	if err := f.partial(c, r); err != nil {
		return err
	}
	return f.scaling(c, r)
}

// partial reads how much of a head is rotated.
func (f *configJSON) partial(c *policy.Config, r ropeJSON) error {
	part := 1.0
	if p := cmp.Or(r.PartialRotaryPart, f.PartialRotaryPart); p != nil {
		part = *p
	}
	if !(part > 0 && part <= 1) {
		return fmt.Errorf("partial_rotary_factor is %g; it must be above 0 and at most 1", part)
	}
	if dim := int(float64(c.HeadDim) * part); dim != c.HeadDim {
		if dim == 0 {
			return fmt.Errorf("partial_rotary_factor is %g, which of a head of %d values leaves none", part, c.HeadDim)
		}
		c.RotaryDim = dim
	}
	return nil
}

// scaling reads the scaling. It may change the longest sequence: YaRN's is at least
// Factor times the original one, and LongRoPE's is the original one, since in
// longer sequences the frequencies change for tokens that are there already.
func (f *configJSON) scaling(c *policy.Config, r ropeJSON) error {
	s := policy.RopeScaling{Type: policy.RopeType(r.Type), Factor: r.Factor}
	switch s.Type {
	case policy.RopeDefault, "default":
		return nil
	case "dynamic":
		return nil // it changes sequences beyond max_position_embeddings alone, of which there are none
	case policy.RopeLinear:
		c.RopeScaling = s
		return nil
	case policy.RopeLlama3, policy.RopeYarn, policy.RopeLong:
	case "su":
		s.Type = policy.RopeLong // the first name of Phi-3
	}
	if s.Type == policy.RopeYarn && c.Architecture == policy.Phi3 {
		s.Type = policy.RopeLong // likewise
	}
	if r.Original != nil && f.Original != nil && *r.Original != *f.Original {
		// Transformers 5 takes the one beside the scaling, transformers 4 the one in it.
		return fmt.Errorf("original_max_position_embeddings is %d in the scaling of rotary embedding but %d beside it; they must agree",
			*r.Original, *f.Original)
	}
	s.Original = c.MaxPositionEmbeddings
	if original := cmp.Or(r.Original, f.Original); original != nil {
		s.Original = *original
	}
	if s.Original < 1 {
		return fmt.Errorf("original_max_position_embeddings is %d; it must be positive", s.Original)
	}
	ratio := max(1, float64(c.MaxPositionEmbeddings)/float64(s.Original))
	switch s.Type {
	case policy.RopeLlama3:
		s.LowFrequencyFactor, s.HighFrequencyFactor = r.LowFrequencyFactor, r.HighFrequencyFactor
	case policy.RopeYarn:
		s.Factor = cmp.Or(s.Factor, ratio)
		s.BetaFast, s.BetaSlow, s.Exact = r.BetaFast, r.BetaSlow, r.Truncate != nil && !*r.Truncate
		s.AttentionFactor, s.MScale, s.MScaleAllDim = r.AttentionFactor, r.MScale, r.MScaleAllDim
		if reach := s.Factor * float64(s.Original); reach < 1<<24 {
			c.MaxPositionEmbeddings = max(c.MaxPositionEmbeddings, int(reach))
		}
	case policy.RopeLong:
		if s.Factor != 0 && s.Factor != ratio {
			return fmt.Errorf("the factor of rope_type longrope is %g, but max_position_embeddings is %g times original_max_position_embeddings; they must agree", s.Factor, ratio)
		}
		s.Factor, s.ShortFactors, s.LongFactors, s.AttentionFactor = ratio, r.ShortFactor, r.LongFactor, r.AttentionFactor
		c.MaxPositionEmbeddings = min(c.MaxPositionEmbeddings, s.Original)
	default:
		return fmt.Errorf("rope_type is %q; default, %s, %s, %s, %s and dynamic are implemented", s.Type, policy.RopeLinear, policy.RopeLlama3, policy.RopeYarn, policy.RopeLong)
	}
	c.RopeScaling = s
	return nil
}

// writeRope is the reverse of rope: in transformers 4's spelling, which both read,
// but for layers with a θ of their own that it has no name for.
func writeRope(f *configJSON, c policy.Config) {
	s := c.RopeScaling
	r := ropeJSON{
		Type: string(s.Type), Factor: s.Factor, LowFrequencyFactor: s.LowFrequencyFactor, HighFrequencyFactor: s.HighFrequencyFactor,
		BetaFast: s.BetaFast, BetaSlow: s.BetaSlow, AttentionFactor: s.AttentionFactor, MScale: s.MScale, MScaleAllDim: s.MScaleAllDim,
		ShortFactor: s.ShortFactors, LongFactor: s.LongFactors,
	}
	if c.RotaryDim != 0 {
		part := (float64(c.RotaryDim) + 0.25) / float64(c.HeadDim) // rounded down to the width
		if exact := float64(c.RotaryDim) / float64(c.HeadDim); int(float64(c.HeadDim)*exact) == c.RotaryDim {
			part = exact
		}
		f.PartialRotaryPart = &part
	}
	switch s.Type {
	case policy.RopeLlama3, policy.RopeYarn:
		r.Original = &s.Original
	case policy.RopeLong:
		// Phi-3 of transformers 4 wants these three names and no other.
		r.Type, r.OldType, r.Factor, f.Original = "", r.Type, 0, &s.Original
		if s.Factor > 1 {
			f.MaxPositionEmbeddings = int(math.Round(s.Factor * float64(s.Original)))
		}
	}
	if s.Exact {
		truncate := false
		r.Truncate = &truncate
	}
	if c.LocalRopeTheta != 0 && c.Architecture != policy.Gemma3 && c.LocalRopeTheta != c.RopeTheta {
		r.Type, r.Theta = cmp.Or(r.Type, "default"), c.RopeTheta
		f.RopeParameters = mustMarshal(map[string]ropeJSON{fullAttention: r, slidingAttention: {Type: "default", Theta: c.LocalRopeTheta}})
		return
	}
	if c.Architecture == policy.Gemma3 {
		f.RopeLocalBase = c.LocalRopeTheta
	}
	if s.Type != policy.RopeDefault {
		f.RopeScaling = mustMarshal(r)
	}
}

// mustMarshal is for values that always marshal: finite numbers and text.
func mustMarshal(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}
