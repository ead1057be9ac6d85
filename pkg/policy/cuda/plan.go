package cuda

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Footprint is the memory that an engine takes on the device, in the parts that
// eng_stats names.
type Footprint struct {
	WeightBytes     int64 `json:"weight_bytes"`
	GradientBytes   int64 `json:"gradient_bytes"`
	SumBytes        int64 `json:"sum_bytes"`   // of partial sums of gradients
	StateBytes      int64 `json:"state_bytes"` // of the optimizer: masters and moments
	ActivationBytes int64 `json:"activation_bytes"`
	HeadBytes       int64 `json:"head_bytes"` // logits of one chunk, and what belongs to them
	CacheBytes      int64 `json:"cache_bytes"`
	OtherBytes      int64 `json:"other_bytes"`
	SpilledBytes    int64 `json:"spilled_bytes"` // of more partial sums, inputs of blocks and the optimizer's state, in page-locked memory of the host
}

// Total is the sum of what is on the device.
func (f Footprint) Total() int64 {
	return f.WeightBytes + f.GradientBytes + f.SumBytes + f.StateBytes + f.ActivationBytes + f.HeadBytes + f.CacheBytes + f.OtherBytes
}

// Plan is how the memory of a device is divided for an engine.
type Plan struct {
	shape
	Budgets
	Footprint
	TotalBytes int64 `json:"total_bytes"` // the footprint's sum
	FreeBytes  int64 `json:"free_bytes"`  // of the device before the engine is opened
}

// OptimizerBytes is what the optimizer's state takes, on the device or in the host's memory.
func (p Plan) OptimizerBytes() int64 {
	b := p.Budgets
	b.HostState = false
	return footprint(p.shape, b).StateBytes
}

// String says what the budgets are, for people.
func (p Plan) String() string {
	if p.Slots > 0 {
		return fmt.Sprintf("%d responses at once, keys and values of %d tokens, prompts by %d rows", p.Slots, p.CacheTokens(), p.PrefillTokens)
	}
	text := fmt.Sprintf("passes of %d rows, logits by %d rows, recomputed: %s", p.PassTokens, p.HeadTokens, p.Recompute)
	if !p.train {
		return text
	}
	text += fmt.Sprintf(", partial sums of gradients: %d", p.GradientSums)
	if p.SpilledSums > 0 {
		text += fmt.Sprintf(" and %d in the host's memory", p.SpilledSums)
	}
	if p.HostState {
		text += ", the optimizer's state in the host's memory"
	}
	if p.SpilledBytes > 0 {
		text += fmt.Sprintf(" (%s of it)", gigabytes(p.SpilledBytes))
	}
	return text
}

// CacheTokens is the number of tokens whose keys and values the cache holds.
func (b Budgets) CacheTokens() int { return b.CachePages * pageTokens }

// Case is an engine to plan for.
type Case struct {
	DType, State safetensors.DType   // as in Options
	Stored       []safetensors.DType // of the weights, where DType is empty
	Train        bool
	ValueHead    bool
	LoRA         *policy.LoRA
	policy.Workload
}

// PlanFor plans for an engine that is not opened, on a device with so many
// bytes free. It is an error of exitcode.Unavailable where the least that does the
// work does not fit.
func PlanFor(c policy.Config, k Case, bytes int64) (Plan, error) {
	s, err := shapeOf(c, k)
	if err != nil {
		return Plan{}, err
	}
	return newPlan(s, k.Workload, bytes)
}

func shapeOf(c policy.Config, k Case) (s shape, err error) {
	if err := checkFamily(c); err != nil {
		return shape{}, err
	}
	s = shape{config: c, train: k.Train, stateless: k.Gradients, valueHead: k.ValueHead, lora: k.LoRA}
	if k.State == safetensors.BF16 {
		s.state = bfloat16Type
	}
	s.dtype, err = typeOf(k.DType, k.Stored)
	return s, err
}

const (
	// roundedBytes is what the driver's rounding of an engine's allocations adds,
	// at most, with what CUDA takes between the look at a device's memory and the
	// engine's own, which leaves reservedBytes: its stream and its events.
	roundedBytes = 64 << 20
	// besideBytes of a device are not planned with.
	besideBytes = reservedBytes + roundedBytes
	// bestPassTokens is where products have all the rows that a GPU has use for.
	bestPassTokens = 16384
	// leastPassTokens is where a smaller pass is worse than computing more again.
	leastPassTokens = 4096
	// mlpTokens are rows enough for products of the MLP.
	mlpTokens = 4096
	// headChunkBytes is what the logits of one chunk take, about.
	headChunkBytes = 256 << 20
	// maxSlots is where decoding stops to gain from more sequences at once.
	maxSlots = 512
	// passSequenceTokens is the length of sequences for which a pass has entries
	// in its tables; of shorter ones it takes fewer tokens.
	passSequenceTokens = 64
	prefillTokens      = 4096
)

// newPlan divides the bytes that a device has free. It is an error of
// exitcode.Unavailable where the least that does the work does not fit.
func newPlan(s shape, w policy.Workload, bytes int64) (Plan, error) {
	longest := s.config.MaxPositionEmbeddings
	if w.Longest > 0 {
		longest = min(longest, w.Longest)
	}
	b := Budgets{Recompute: KeepAll, group: w.Shared / rowAlign}
	if w.Generate {
		b.Slots = maxSlots
		if w.Responses > 0 {
			b.Slots = min(b.Slots, w.Responses)
		}
		b.CachePages = pagesOf(longest) + 1
		b.PrefillTokens = min(prefillTokens, policy.RowsOf(longest))
	}
	wanted := max(policy.RowsOf(longest), policy.RowsOf(w.Shared))
	if w.Generate && !s.train {
		wanted = min(wanted, leastPassTokens)
	}
	least := b.withPass(wanted, s)
	if s.train {
		least.Recompute, least.HostState = Offload, !s.stateless
	}
	available := (bytes - besideBytes) / int64(1+w.Twins)
	if f := footprint(s, least); f.Total() > available {
		return Plan{}, refusal(s, least, f, longest, w.Shared, bytes/int64(1+w.Twins))
	}
	b = growPass(s, b, w, wanted, available)
	b = growCache(s, b, w, longest, available)
	f := footprint(s, b)
	return Plan{shape: s, Budgets: b, Footprint: f, TotalBytes: f.Total(), FreeBytes: bytes}, nil
}

// withPass sets the rows of a pass and what goes with them.
func (b Budgets) withPass(rows int, s shape) Budgets {
	b.PassTokens = rows
	b.PassSequences = max(1, rows/passSequenceTokens, b.group)
	b.MLPTokens = min(rows, mlpTokens)
	perRow := int64(s.config.VocabSize) * s.dtype.bytes()
	b.HeadTokens = min(rows, max(rowAlign, int(headChunkBytes/perRow)/rowAlign*rowAlign))
	return b
}

// growPass finds the mode and the size of a pass, and where partial sums are: the
// least that is computed again with which a pass of a good size fits, with inputs of blocks,
// and then the optimizer's state, in the host's memory if the longest sequence fits no other way; as many
// sums on the device as fit beside that, the others on the host; and then the
// largest pass up to what is wanted.
func growPass(s shape, b Budgets, w policy.Workload, least int, available int64) Budgets {
	best := bestPassTokens
	if w.PassTokens > 0 {
		best = w.PassTokens + w.PassTokens/passSequenceTokens*rowAlign // the rows that align sequences
	}
	best = max(least, policy.RowsOf(best))
	if !s.train {
		best = max(least, min(best, leastPassTokens))
	}
	modes := []Recompute{KeepAll}
	if s.train {
		modes = append(modes, RecomputeMLP, RecomputeBlock)
	}
	enough := max(least, min(best, leastPassTokens))
	fits := func(rows int) bool { return footprint(s, b.withPass(rows, s)).Total() <= available }
	choose := func() {
		for _, mode := range modes {
			if b.Recompute = mode; fits(enough) {
				break
			}
		}
		if s.train && !fits(least) { // copies over the bus take time: only what fits no other way takes it
			b.Recompute = Offload
		}
	}
	if choose(); s.train && !s.stateless && !fits(least) {
		b.HostState = true
		choose()
	}
	if !s.train {
		return b.withPass(largest(least, best, fits), s)
	}
	enough = largest(least, enough, fits)
	for b.GradientSums < w.Sums {
		if b.GradientSums++; !fits(enough) {
			b.GradientSums--
			break
		}
	}
	b.SpilledSums = w.Sums - b.GradientSums
	return b.withPass(largest(least, best, fits), s)
}

// largest is the largest multiple of rowAlign in [least, most] that fits, as
// least does.
func largest(least, most int, fits func(rows int) bool) int {
	low, high := least/rowAlign, most/rowAlign+1 // low fits, high does not or is too many
	for high-low > 1 {
		if middle := (low + high) / 2; fits(middle * rowAlign) {
			low = middle
		} else {
			high = middle
		}
	}
	return low * rowAlign
}

// growCache gives the cache what is left, as far as the slots have use for it.
func growCache(s shape, b Budgets, w policy.Workload, longest int, available int64) Budgets {
	if !w.Generate {
		return b
	}
	one := b
	one.CachePages++
	perPage := footprint(s, one).Total() - footprint(s, b).Total()
	left := available - footprint(s, b).Total()
	most := b.Slots * (pagesOf(longest) + 1)
	b.CachePages = max(b.CachePages, min(most, b.CachePages+int(left/perPage)))
	return b
}

// refusal says why nothing was started, with numbers.
func refusal(s shape, b Budgets, f Footprint, longest, shared int, bytes int64) error {
	what := fmt.Sprintf("sequences of %d tokens", longest)
	if shared > longest {
		what = fmt.Sprintf("sequences of one prompt, %d tokens together", shared)
	}
	err := exitcode.Unavailablef("the policy needs at least %s of GPU memory for %s (%s) and %s for CUDA itself, but %s are free",
		gigabytes(f.Total()), what, f, gigabytes(besideBytes), gigabytes(bytes))
	switch {
	case shared > longest:
		return exitcode.WithHint(err, "a smaller schedule.shared_prompt_tokens needs less for activations")
	case s.train && s.lora == nil:
		return exitcode.WithHint(err, "policy.lora needs very little for gradients; shorter sequences need less for activations")
	case b.Slots > 0:
		return exitcode.WithHint(err, "a smaller max_position_embeddings needs less for keys and values; another process may be using the GPU (nvidia-smi)")
	}
	return exitcode.WithHint(err, "shorter sequences need less; another process may be using the GPU (nvidia-smi)")
}

// String lists the parts that are not zero.
func (f Footprint) String() string {
	var texts []string
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"weights", f.WeightBytes},
		{"gradients", f.GradientBytes},
		{"their sums", f.SumBytes},
		{"optimizer", f.StateBytes},
		{"activations", f.ActivationBytes},
		{"head", f.HeadBytes},
		{"keys and values", f.CacheBytes},
		{"other", f.OtherBytes},
	} {
		if part.bytes != 0 {
			texts = append(texts, part.name+" "+gigabytes(part.bytes))
		}
	}
	return strings.Join(texts, ", ")
}

// gigabytes writes a number of bytes for people.
func gigabytes(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
}
