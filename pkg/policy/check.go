package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// MinTemperature is the least temperature above 0. Far below it the rounding of
// logits divided by the temperature is larger than what exp takes, and the
// distribution is lost.
const MinTemperature = 1e-4

// Validate refuses settings out of range.
func (s Sampling) Validate() error {
	if !(s.Temperature >= 0) || math.IsInf(float64(s.Temperature), 0) {
		return exitcode.Usagef("temperature is %g; it must be finite and not negative", s.Temperature)
	}
	if s.Temperature > 0 && s.Temperature < MinTemperature {
		return exitcode.Usagef("temperature is %g; it must be 0, which is greedy, or at least %g", s.Temperature, MinTemperature)
	}
	if !(s.TopP >= 0 && s.TopP <= 1) {
		return exitcode.Usagef("top_p is %g; it must lie in [0, 1]", s.TopP)
	}
	return nil
}

// Validate refuses batches that a policy of a shape cannot take.
func (b Batch) Validate(c Config) error {
	n := len(b.TokenIDs)
	if len(b.Targets) != n {
		return exitcode.Bugf("forward pass: %d targets for %d tokens", len(b.Targets), n)
	}
	if n == 0 && len(b.Offsets) <= 1 {
		return nil
	}
	if len(b.Offsets) == 0 || b.Offsets[0] != 0 || int(b.Offsets[len(b.Offsets)-1]) != n {
		return exitcode.Bugf("forward pass: the offsets do not span the %d tokens", n)
	}
	if b.Prefixes != nil && len(b.Prefixes) != len(b.Offsets)-1 {
		return exitcode.Bugf("forward pass: %d shared prefixes for %d sequences", len(b.Prefixes), len(b.Offsets)-1)
	}
	for s := range len(b.Offsets) - 1 {
		from, to := b.Offsets[s], b.Offsets[s+1]
		if from > to || int(to) > n {
			return exitcode.Bugf("forward pass: sequence %d has offsets %d to %d", s, from, to)
		}
		length, prefix := int(to-from), b.Prefix(s)
		if prefix >= 0 {
			if prefix >= s || b.Prefix(prefix) >= 0 || prefix < s-1 && b.Prefix(s-1) != prefix {
				return exitcode.Bugf("forward pass: sequence %d cannot share the prefix of sequence %d", s, prefix)
			}
			length += int(b.Offsets[prefix+1] - b.Offsets[prefix])
		}
		if length > c.MaxPositionEmbeddings {
			return exitcode.Dataf("sequence %d has %d tokens; the policy's limit is %d", s, length, c.MaxPositionEmbeddings)
		}
		if to > from && b.Targets[from] {
			return exitcode.Bugf("forward pass: the first token of sequence %d is a target, but nothing predicts it", s)
		}
	}
	return checkTokens(b.TokenIDs, c)
}

// CheckForward refuses what the Forward of a policy of a shape cannot take.
func CheckForward(c Config, batch Batch, sampling Sampling, logProbs, entropy []float32) error {
	if err := batch.Validate(c); err != nil {
		return err
	}
	if n := len(batch.TokenIDs); len(logProbs) != n || len(entropy) != n {
		return exitcode.Bugf("forward pass: %d log-probabilities and %d entropies for %d tokens", len(logProbs), len(entropy), n)
	}
	return sampling.Validate()
}

// Validate refuses coefficients that are not of a batch of so many tokens.
func (c Coefficients) Validate(tokens int, valueHead bool) error {
	for _, given := range [][]float32{c.LogProb, c.Entropy, c.Value} {
		if given != nil && len(given) != tokens {
			return exitcode.Bugf("backward pass: %d coefficients for %d tokens", len(given), tokens)
		}
	}
	if c.Value != nil && !valueHead {
		return exitcode.Bugf("backward pass: coefficients for values, but the policy has no value head")
	}
	return nil
}

// PlaceState finds the tensors that an engine wants in a state, whose order may be another,
// as that of files of parts is: index[i] is where want[i] is. A state that is not the
// engine's, by names and shapes, is refused.
func PlaceState(s State, want []Tensor) (index []int, err error) {
	at := make(map[string]int, len(want))
	for i, t := range want {
		at[t.Name] = i + 1
	}
	given := s.Tensors()
	index = make([]int, len(given))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int {
		return cmp.Compare(cmp.Or(at[given[a].Name], len(want)+1), cmp.Or(at[given[b].Name], len(want)+1))
	})
	placed := make([]Tensor, len(given))
	for i, j := range index {
		placed[i] = given[j]
	}
	if err := Match(placed, want); err != nil {
		return nil, exitcode.Dataf("loading the optimizer's state (it must belong to this policy, with the same policy.dtype and optimizer.state): %w", err)
	}
	return index, nil
}

func checkTokens(ids []int32, c Config) error {
	for i, id := range ids {
		if id < 0 || int(id) >= c.VocabSize {
			return exitcode.Dataf("token %d has id %d; the policy's vocabulary has %d", i, id, c.VocabSize)
		}
	}
	return nil
}

// Validate refuses requests that a policy of a shape cannot answer.
func (r Request) Validate(c Config) error {
	if len(r.Prompt) == 0 {
		return exitcode.Dataf("the prompt is empty; at least one token is needed")
	}
	if len(r.Prompt) > c.MaxPositionEmbeddings {
		return exitcode.Dataf("the prompt has %d tokens; the policy's limit is %d", len(r.Prompt), c.MaxPositionEmbeddings)
	}
	if err := checkTokens(r.Prompt, c); err != nil {
		return err
	}
	return r.Sampling.Validate()
}

// RequestError is what is wrong with one request of a call, or came of it.
type RequestError struct {
	Index int // of the request in the call
	Err   error
}

func (e *RequestError) Error() string { return fmt.Sprintf("request %d: %v", e.Index, e.Err) }
func (e *RequestError) Unwrap() error { return e.Err }

// Match wants tensors of the same names and shapes in the same order.
func Match(got, want []Tensor) error {
	for i, t := range got {
		switch {
		case i >= len(want):
			return fmt.Errorf("the engine has no place for tensor %q", t.Name)
		case t.Name != want[i].Name || !slices.Equal(t.Shape, want[i].Shape):
			return fmt.Errorf("tensor %d is %q %v; %q %v was expected", i, t.Name, t.Shape, want[i].Name, want[i].Shape)
		}
	}
	if len(got) < len(want) {
		return fmt.Errorf("tensor %q is missing", want[len(got)].Name)
	}
	return nil
}
