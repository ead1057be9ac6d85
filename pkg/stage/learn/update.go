package learn

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy/adamw"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// An update in parts (schedule.apply_shards) takes an optimizer step without an engine.
// Every task owns whole files of the policy, so what it holds does not grow with the
// policy:
//
//	RunSum    adds up the gradients of its tensors, in the order of tree, and seals them
//	          with the sums of squares of their segments
//	RunApply  has the norm of the gradient by all squares, and steps its files
//	RunGather gives the files of all tasks a place in one sealed policy
//
// Steps are elementwise but for the norm, whose order of sums is fixed, so the bytes are
// those of one task.

// squaresKey is the metadata key of sums of squares, by tensor, in a file of RunSum.
const squaresKey = "squares"

// update is an optimizer step in parts.
type update struct {
	Settings
	files  stage.Files
	in     Inputs
	models []*model
	cited  []seal.Input
}

// model is what a step updates: the policy, or a critic that is a model of its own.
type model struct {
	*checkpoint.Parts
	prefix            string // before the names of its tensors in files of gradients
	folder, optimizer string // optimizer is empty for a fresh state
	places            []int  // elements of its tensors before each
	state             safetensors.DType
	output, rest      string // where its folder and that of its state go: in a part, and in the end
}

// The folders in the folder of a part.
const (
	partPolicy    = "policy"
	partReference = "ref"
	partState     = ".optim" // behind the model's
)

// openUpdate opens the models of a step, without their numbers.
func openUpdate(job stage.Job, s Settings, in Inputs) (*update, error) {
	u := &update{Settings: s, files: job.Files, in: in}
	models := []*model{{folder: in.Policy, optimizer: in.Optimizer, output: partPolicy, rest: in.PolicyOutput}}
	heads := []bool{s.Policy.ValueHead()}
	if in.Critic != "" {
		models = append(models, &model{prefix: criticPrefix, folder: in.Critic, optimizer: in.CriticOptimizer, output: "critic", rest: in.CriticOutput})
		heads = append(heads, true)
	}
	for i, m := range models {
		if err := m.open(s, heads[i]); err != nil {
			return nil, errors.Join(err, u.close())
		}
		u.models = append(u.models, m)
	}
	if err := u.checkAdapter(); err != nil {
		return nil, errors.Join(err, u.close())
	}
	return u, nil
}

func (m *model) open(s Settings, valueHead bool) (err error) {
	if m.Parts, err = checkpoint.OpenParts(m.folder, valueHead); err != nil {
		return err
	}
	m.state = backend.DTypes[s.Optimizer.State]
	at, wanted := 0, backend.DTypes[s.Policy.DType]
	for i := range m.Tensors {
		t := &m.Tensors[i]
		m.places, at = append(m.places, at), at+t.Elements()
		if t.Name == m.head() || m.Adapter() != nil {
			continue // in float32, whatever the policy is in
		}
		t.DType = cmp.Or(wanted, t.DType)
		if own := t.StoredAs(); m.state == safetensors.BF16 && own != m.Tensors[0].StoredAs() {
			return errors.Join(exitcode.WithHint(exitcode.Dataf("policy %q stores weights as %s and as %s, which optimizer.state bfloat16 in parts does not take", m.folder, m.Tensors[0].StoredAs(), own),
				"lathe policy convert gives them one type"), m.Close())
		}
	}
	return nil
}

// head is the name of the value head, which is in no file of the weights; empty for none.
func (m *model) head() string {
	if last := m.Files[len(m.Files)-1]; last.Name == checkpoint.ValueHeadFile {
		return m.Tensors[last.Tensors[0]].Name
	}
	return ""
}

// owned are the files of a model that task n of so many owns.
func (m *model) owned(n, of int) (first, last int) { return owned(len(m.Files), n, of) }

// owned are the files, of so many, that task n of so many owns.
func owned(files, n, of int) (first, last int) { return files * n / of, files * (n + 1) / of }

func (u *update) close() error {
	var faults []error
	for _, m := range u.models {
		faults = append(faults, m.Close())
	}
	return errors.Join(faults...)
}

// cite cites a sealed folder of which files are read: those are digested.
func (u *update) cite(ctx context.Context, folder string, read func(name string) bool) error {
	m, err := seal.VerifyFiles(ctx, folder, u.files.Reading, read)
	if err == nil {
		u.cited = append(u.cited, u.files.Input(folder, m))
	}
	return err
}

// RunSum adds up the gradients, in.Gradients, of the tensors that task n of so many owns.
func RunSum(ctx context.Context, job stage.Job, s Settings, in Inputs, n, of int, output string) (seal.Manifest, error) {
	started := time.Now()
	u, err := openUpdate(job, s, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer u.close()
	for _, m := range u.models {
		if err := u.cite(ctx, m.folder, func(string) bool { return false }); err != nil {
			return seal.Manifest{}, err
		}
	}
	sources, stats, err := u.openGradients(ctx)
	defer closeAll(sources)
	if err != nil {
		return seal.Manifest{}, err
	}
	var sums []arrowfile.Tensor
	squares := map[string][]float64{}
	adding := &tensorSum{}
	for _, m := range u.models {
		first, last := m.owned(n, of)
		for _, file := range m.Files[first:last] {
			for _, index := range file.Tensors {
				if err := ctx.Err(); err != nil {
					return seal.Manifest{}, err
				}
				t := m.Tensors[index]
				name := m.prefix + t.Name
				sum, err := adding.add(sources, name, t.Elements(), s.GradientUnits)
				if err != nil {
					return seal.Manifest{}, err
				}
				sums = append(sums, arrowfile.Tensor{Name: name, Shape: t.Shape, Data: sum})
				squares[name] = squaresOf(sum)
			}
		}
	}
	meta, err := sumMeta(stats, squares)
	if err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("sum", in.Iteration, n, of, started, u.cited...)
	read := int64(0)
	for _, source := range sources {
		read += source.BytesRead()
	}
	m.Metrics = map[string]float64{"gradient_bytes_read": float64(read)}
	return arrowfile.WriteTensors(output, sums, meta, job.Attempt, m)
}

// gradientFile is an open file of partial sums of gradients.
type gradientFile struct {
	*arrowfile.Tensors
	blocks []block // that it holds of every tensor, in order
}

func closeAll(files []gradientFile) {
	for _, f := range files {
		f.Close()
	}
}

// openGradients opens the files of gradients, with what they saw of the loss.
func (u *update) openGradients(ctx context.Context) (files []gradientFile, stats stepStats, err error) {
	tensors := 0
	for _, m := range u.models {
		tensors += len(m.Tensors)
	}
	for i, path := range u.in.Gradients {
		opened, m, err := arrowfile.OpenTensors(ctx, path, u.files.Reading)
		if err != nil {
			return files, stats, fmt.Errorf("gradient shard %d: %w", i, err)
		}
		f := gradientFile{Tensors: opened}
		files = append(files, f)
		for _, name := range opened.Names {
			start, level, _, ok := blockName(name)
			if !ok {
				return files, stats, exitcode.Dataf("gradient shard %q holds %q, which is no block of a tensor", path, name)
			}
			if last := len(f.blocks) - 1; last < 0 || f.blocks[last].start != start || f.blocks[last].level != level {
				f.blocks = append(f.blocks, block{start: start, level: level})
			}
		}
		if len(opened.Names) != tensors*len(f.blocks) {
			return files, stats, exitcode.Dataf("gradient shard %q has %d tensors in %d blocks, what is trained has %d", path, len(opened.Names), len(f.blocks), tensors)
		}
		files[i] = f
		record, err := statsOf(path, opened.Meta)
		if err != nil {
			return files, stats, err
		}
		stats.merge(record)
		u.cited = append(u.cited, u.files.Input(path, m))
	}
	return files, stats, nil
}

// statsOf is what a file of gradients saw of the loss.
func statsOf(path string, meta map[string]string) (stats stepStats, err error) {
	if err := json.Unmarshal([]byte(meta[statsKey]), &stats); err != nil {
		return stats, exitcode.Dataf("gradient shard %q has no readable statistics: %w", path, err)
	}
	return stats, nil
}

// sumMeta is the metadata of a file of sums.
func sumMeta(stats stepStats, squares map[string][]float64) (map[string]string, error) {
	encoded, err := json.Marshal(stats)
	if err != nil {
		return nil, err
	}
	bits := map[string]string{} // a sum may be infinite, which JSON does not write
	for name, of := range squares {
		raw := make([]byte, 0, 8*len(of))
		for _, x := range of {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
		}
		bits[name] = base64.StdEncoding.EncodeToString(raw)
	}
	listed, err := json.Marshal(bits)
	return map[string]string{statsKey: string(encoded), squaresKey: string(listed)}, err
}

// addSquares adds the squares of a file of sums to those of others.
func addSquares(squares map[string][]float64, path string, meta map[string]string) error {
	var bits map[string]string
	if err := json.Unmarshal([]byte(meta[squaresKey]), &bits); err != nil {
		return exitcode.Dataf("gradients %q have no readable sums of squares: %w", path, err)
	}
	for name, of := range bits {
		raw, err := base64.StdEncoding.DecodeString(of)
		if err != nil || len(raw)%8 != 0 || squares[name] != nil {
			return exitcode.Dataf("gradients %q: the sums of squares of %q cannot be read, or another file has them", path, name)
		}
		squares[name] = make([]float64, len(raw)/8)
		for i := range squares[name] {
			squares[name][i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	}
	return nil
}

// openSums opens file n of those that RunSum sealed, if n is not negative, and has the
// steps of the models by the squares of all. A step without sequences is skipped.
func (u *update) openSums(ctx context.Context, n int) (own *arrowfile.Tensors, steps []adamw.Step, stats stepStats, err error) {
	squares := map[string][]float64{}
	for i, path := range u.in.Gradients {
		f, m, err := arrowfile.OpenTensors(ctx, path, u.files.Reading)
		if err != nil {
			return own, nil, stats, err
		}
		u.cited = append(u.cited, u.files.Input(path, m))
		if i == n {
			own = f
		} else {
			defer f.Close()
		}
		if stats, err = statsOf(path, f.Meta); err != nil { // each has those of all
			return own, nil, stats, err
		}
		if err := addSquares(squares, path, f.Meta); err != nil {
			return own, nil, stats, err
		}
	}
	for i, m := range u.models {
		step, err := u.stepOf(i, m, squares)
		if err != nil {
			return own, nil, stats, err
		}
		steps = append(steps, step)
	}
	stats.noteSteps(steps)
	return own, steps, stats, nil
}

// noteSteps notes the norms of the policy's step and of a critic's.
func (s *stepStats) noteSteps(steps []adamw.Step) {
	if s.Sequences == 0 {
		s.Skipped = true
		return
	}
	s.GradNorm, s.HeadNorm, s.Skipped = steps[0].GradNorm, steps[0].HeadNorm, steps[0].Skipped
	if len(steps) > 1 {
		s.HeadNorm, s.Skipped = steps[1].GradNorm, s.Skipped || steps[1].Skipped
	}
}

// stepOf is the step of model number i.
func (u *update) stepOf(i int, m *model, squares map[string][]float64) (adamw.Step, error) {
	settings, err := stepSettings(u.Settings, u.in, u.in.FirstStep, i == 1)
	if err != nil {
		return adamw.Step{}, err
	}
	var rest, head []float64
	for _, t := range m.Tensors {
		of, n := squares[m.prefix+t.Name], (t.Elements()+adamw.Segment-1)/adamw.Segment
		if len(of) != n {
			return adamw.Step{}, exitcode.Dataf("the gradients have %d sums of squares of %q; it has %d segments", len(of), m.prefix+t.Name, n)
		}
		if t.Name == m.head() && settings.ValueHead.MaxGradNorm > 0 {
			head = of
		} else {
			rest = append(rest, of...)
		}
	}
	return adamw.Clip(settings, adamw.Norm(rest), adamw.Norm(head)), nil
}

// RunApply steps the files that task n of so many owns, with the sums in.Gradients, and
// seals them in one folder.
func RunApply(ctx context.Context, job stage.Job, s Settings, in Inputs, n, of int, output string) (seal.Manifest, error) {
	started := time.Now()
	u, err := openUpdate(job, s, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer u.close()
	gradients, steps, stats, err := u.openSums(ctx, n)
	if gradients != nil {
		defer gradients.Close()
	}
	if err != nil {
		return seal.Manifest{}, err
	}
	folder, err := seal.CreateFolder(output, job.Attempt)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer folder.Abort()
	for i, m := range u.models {
		first, last := m.owned(n, of)
		if err := u.citeOwned(ctx, m, first, last); err != nil {
			return seal.Manifest{}, err
		}
		steps[i].Skipped = steps[i].Skipped || stats.Sequences == 0
		for file := first; file < last; file++ {
			if err := ctx.Err(); err != nil {
				return seal.Manifest{}, err
			}
			if err := m.apply(file, steps[i], gradients, folder.Path()); err != nil {
				return seal.Manifest{}, fmt.Errorf("policy %q, file %q: %w", m.folder, m.Files[file].Name, err)
			}
		}
	}
	first, last := u.models[0].owned(n, of)
	if err := u.refreshReference(ctx, first, last, folder.Path()); err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("apply", in.Iteration, n, of, started, u.cited...)
	m.Metrics = map[string]float64{"gradient_bytes_read": float64(gradients.BytesRead())}
	return folder.Commit(m)
}

// citeOwned digests and cites the files of a model, and of its state, that are read.
func (u *update) citeOwned(ctx context.Context, m *model, first, last int) error {
	weights, state := map[string]bool{}, map[string]bool{checkpoint.OptimizerFile: first < last}
	for file := first; file < last; file++ {
		weights[m.Files[file].Name], state[checkpoint.OptimizerPart(file, len(m.Files))] = true, true
	}
	if err := u.cite(ctx, m.folder, func(name string) bool { return weights[name] }); err != nil || m.optimizer == "" {
		return err
	}
	return u.cite(ctx, m.optimizer, func(name string) bool { return state[name] })
}

// refreshReference writes the files of the refreshed reference that belong to files of
// the new policy in a part: ref ← α·policy + (1-α)·ref (ExIt §2.2).
func (u *update) refreshReference(ctx context.Context, first, last int, part string) (err error) {
	if u.in.ReferenceOutput == "" {
		return nil
	}
	reference, err := u.openReference()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reference.Close()) }()
	last = min(last, len(reference.Files)) // a value head is of no reference
	names := map[string]bool{}
	for file := first; file < last; file++ {
		names[reference.Files[file].Name] = true
	}
	if err := u.cite(ctx, u.in.Reference, func(name string) bool { return names[name] }); err != nil {
		return err
	}
	folder, err := makeFolder(part, partReference)
	if err != nil {
		return err
	}
	for file := first; file < last; file++ {
		if err := u.refreshFile(reference, file, filepath.Join(part, partPolicy), folder); err != nil {
			return err
		}
	}
	return nil
}

// openReference opens the reference, whose files must be those of the policy.
func (u *update) openReference() (*checkpoint.Parts, error) {
	reference, err := checkpoint.OpenParts(u.in.Reference, false)
	if err != nil {
		return nil, err
	}
	for i, file := range reference.Files {
		if own := u.models[0].Files[i]; own.Name != file.Name || len(own.Tensors) != len(file.Tensors) {
			return nil, errors.Join(exitcode.Dataf("reference %q and policy %q are not in the same files: %q and %q differ", u.in.Reference, u.in.Policy, file.Name, own.Name), reference.Close())
		}
	}
	return reference, nil
}

func (u *update) refreshFile(reference *checkpoint.Parts, file int, policies, to string) (err error) {
	weights, err := safetensors.Open(filepath.Join(policies, reference.Files[file].Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, weights.Close()) }()
	own := make([]float32, adamw.Segment)
	return reference.WriteFile(to, file, func(dst []float32, index, from int) error {
		if err := weights.Float32At(own[:len(dst)], reference.Tensors[index].Name, from); err != nil {
			return err
		}
		if err := reference.Float32To(dst, index, from); err != nil {
			return err
		}
		return loss.RefreshReference(dst, own[:len(dst)], u.Loss.KL.RefAlpha)
	})
}
