package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Parts is a model folder, or an adapter's, whose weights are read and written file by
// file. A value head is a file after those of the weights.
type Parts struct {
	Tensors []policy.Tensor // as an engine trains them: those of Layout or LoRALayout, then the value head; files are written in their types
	Files   []Part

	config  policy.Config
	source  *folderSource // nil for an adapter
	adapter *adapterParts // nil for a whole policy
	head    []float32     // nil for none
}

// adapterParts is an adapter's folder: one file of weights.
type adapterParts struct {
	policy.Adapter // without data
	folder         string
	file           *safetensors.File
}

// Part is a file of a model folder.
type Part struct {
	Name    string
	Tensors []int // of Parts, in the order of the file
}

// OpenParts opens a model folder, with its value head, or a new one, if that is wanted.
func OpenParts(folder string, valueHead bool) (p *Parts, err error) {
	adapted, err := IsAdapter(folder)
	switch {
	case err != nil:
	case adapted:
		p, err = openAdapterParts(folder)
	default:
		p, err = openModelParts(folder)
	}
	if err != nil {
		return nil, err
	}
	if err := p.addHead(folder, valueHead); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func openModelParts(folder string) (*Parts, error) {
	source, err := openFolder(folder)
	if err != nil {
		return nil, err
	}
	p := &Parts{Tensors: source.Tensors(), config: source.config, source: source}
	if err := p.list(folder); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return p, nil
}

// openAdapterParts reads what LoadAdapter does but for the numbers.
func openAdapterParts(folder string) (*Parts, error) {
	_, config, err := AdaptedConfig(folder, "")
	if err != nil {
		return nil, err
	}
	stated, _, base, err := loadAdapterConfig(folder)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, AdapterWeightsFile)
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	a := &adapterParts{Adapter: policy.Adapter{LoRA: stated, Base: base}, folder: folder, file: f}
	if err := layAdapterOut(&a.Adapter, f, path, config); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := &Parts{Tensors: a.Tensors, config: config, adapter: a, Files: []Part{{Name: AdapterWeightsFile}}}
	for i, t := range a.Tensors {
		info, ok := f.Lookup(t.Name)
		if !ok {
			return nil, errors.Join(exitcode.Dataf("reading %q: there is no tensor %q", path, t.Name), f.Close())
		}
		if err := checkInfo(info, t.Shape); err != nil {
			return nil, errors.Join(exitcode.Dataf("reading %q: %w", path, err), f.Close())
		}
		p.Files[0].Tensors = append(p.Files[0].Tensors, i)
	}
	return p, nil
}

// Config is the shape of the policy, or of what an adapter adapts.
func (p *Parts) Config() policy.Config { return p.config }

// Adapter is the shape of an adapter; nil for a whole policy.
func (p *Parts) Adapter() *policy.LoRA {
	if p.adapter == nil {
		return nil
	}
	return &p.adapter.LoRA
}

func (p *Parts) list(folder string) error {
	s := p.source
	if _, stored := s.weights.at[policy.HeadName]; stored && s.config.TieWordEmbeddings {
		return exitcode.WithHint(exitcode.Dataf("reading %q: it stores %s, which is tied to %s, a second time: it cannot be written file by file", folder, policy.HeadName, policy.EmbeddingName),
			"lathe policy convert stores it once")
	}
	for _, file := range s.plan(p.Tensors) {
		p.Files = append(p.Files, Part{Name: file.name, Tensors: file.from})
	}
	return nil
}

// addHead adds the value head of a folder, or a new one, if that is wanted.
func (p *Parts) addHead(folder string, wanted bool) (err error) {
	if !wanted {
		return nil
	}
	if p.head, err = LoadValueHead(folder, p.config); err != nil {
		return err
	}
	if p.head == nil {
		p.head = policy.NewValueHead(p.config)
	}
	p.Files = append(p.Files, Part{Name: ValueHeadFile, Tensors: []int{len(p.Tensors)}})
	p.Tensors = append(p.Tensors, policy.ValueHeadLayout(p.config))
	return nil
}

// Float32To fills dst with the elements from.. of a tensor.
func (p *Parts) Float32To(dst []float32, index, from int) error {
	switch {
	case p.head != nil && index == len(p.Tensors)-1:
		copy(dst, p.head[from:])
		return nil
	case p.adapter != nil:
		name := p.Tensors[index].Name
		if err := p.adapter.file.Float32At(dst, name, from); err != nil {
			return err
		}
		return policy.CheckFinite(dst, name, from)
	}
	return p.source.Float32To(dst, index, from)
}

// Close ends the reading.
func (p *Parts) Close() error {
	if p.adapter != nil {
		return p.adapter.file.Close()
	}
	return p.source.Close()
}

// WriteFile writes a file as the folder has it, with other numbers, into another
// folder. read fills dst with the elements from.. of a tensor, each once and in order.
func (p *Parts) WriteFile(to string, file int, read func(dst []float32, index, from int) error) error {
	planned := plannedFile{name: p.Files[file].Name, metadata: ofTorch(nil)}
	if p.source != nil && file < len(p.source.weights.files) {
		planned.metadata = ofTorch(p.source.weights.files[file].Metadata)
	}
	for _, index := range p.Files[file].Tensors {
		planned.add(index, p.Tensors[index].Name, p.Tensors[index])
	}
	return writePlanned(to, []plannedFile{planned}, false, func(dst []float32, index, from int) error {
		if err := read(dst, index, from); err != nil {
			return err
		}
		return policy.CheckFinite(dst, p.Tensors[index].Name, from)
	})
}

// WriteRest writes what a folder has beside its weights: config.json, the index of
// weights in several files, and all that [CarryFiles] carries; of an adapter its
// configuration, which names the folder that it adapts as base.
func (p *Parts) WriteRest(to, base string) error {
	if a := p.adapter; a != nil {
		named := a.Adapter
		named.Base = base
		if err := writeAdapterConfig(to, named); err != nil {
			return err
		}
		return CarryFiles(to, a.folder)
	}
	from, tensors := p.source.weights.folder, p.Tensors[:len(p.source.tensors)]
	if err := carryConfig(to, from, p.source.tensors, tensors); err != nil {
		return err
	}
	if p.source.weights.sharded {
		if err := writeIndex(to, p.source.plan(tensors)); err != nil {
			return err
		}
	}
	return CarryFiles(to, from)
}

// State is the optimizer's state in a folder, of which tensors are read: all
// in one file, or for each file of the policy one.
type State struct {
	Steps int // taken
	path  string
	files []*safetensors.File
	at    map[string]*safetensors.File
}

// OptimizerPart is the name of the file of the optimizer's state that belongs to file
// number i, from 0, of n of a policy.
func OptimizerPart(i, n int) string {
	if n == 1 {
		return OptimizerFile
	}
	return fmt.Sprintf("optimizer-%05d-of-%05d.safetensors", i+1, n)
}

// OpenState opens the files of a folder of the optimizer's state that are wanted; nil is for
// all of them. Whether it is the state of a policy is for [policy.Trainer] to say.
func OpenState(folder string, wanted func(name string) bool) (*State, error) {
	names, err := stateFiles(folder)
	if err != nil {
		return nil, err
	}
	s := &State{path: folder, at: map[string]*safetensors.File{}, Steps: -1}
	for _, name := range names {
		if wanted != nil && !wanted(name) {
			continue
		}
		if err := s.open(filepath.Join(folder, name)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// stateFiles lists the files of a folder of the optimizer's state, in their order.
func stateFiles(folder string) ([]string, error) {
	f, _, err := plainfile.Open(filepath.Join(folder, OptimizerFile))
	if err == nil {
		return []string{OptimizerFile}, f.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, globErr := filepath.Glob(filepath.Join(folder, "optimizer-*-of-*.safetensors"))
	if globErr != nil || len(names) == 0 {
		return nil, err
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	slices.Sort(names)
	for i, name := range names {
		if want := OptimizerPart(i, len(names)); name != want {
			return nil, exitcode.Dataf("reading %q: it has %d files of the optimizer's state, of which %q is missing", folder, len(names), want)
		}
	}
	return names, nil
}

func (s *State) open(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	steps, err := strconv.Atoi(f.Metadata["steps"])
	if err != nil || steps < 0 || s.Steps >= 0 && steps != s.Steps {
		return exitcode.Dataf("reading %q: the metadata has no number of steps, or another than the files before it", path)
	}
	s.Steps = steps
	for _, info := range f.Tensors() {
		if !info.DType.Float() {
			return exitcode.Dataf("reading %q: tensor %q is %s; moments and master weights are F32 or BF16", path, info.Name, info.DType)
		}
		if s.at[info.Name] != nil {
			return exitcode.Dataf("reading %q: tensor %q is in another file, too", path, info.Name)
		}
		s.at[info.Name] = f
	}
	return nil
}

// Read fills dst with the elements from.. of a tensor, whose shape is that of like.
func (s *State) Read(dst []float32, name string, like policy.Tensor, from int) error {
	f := s.at[name]
	if f == nil {
		return exitcode.Dataf("reading %q: there is no tensor %q: it must be the optimizer's state of this policy, with the same policy.dtype and optimizer.state", s.path, name)
	}
	info, _ := f.Lookup(name)
	if err := checkInfo(info, like.Shape); err != nil {
		return exitcode.Dataf("reading %q: %w", s.path, err)
	}
	if err := f.Float32At(dst, name, from); err != nil {
		return err
	}
	if err := policy.CheckFinite(dst, name, from); err != nil {
		return exitcode.Dataf("reading %q: %w", s.path, err)
	}
	return nil
}

// Tensors implements [policy.State]: first moments, second moments and masters of each file,
// in the order of the files.
func (s *State) Tensors() []policy.Tensor {
	var all []policy.Tensor
	for _, f := range s.files {
		for _, info := range f.Tensors() {
			all = append(all, policy.Tensor{Name: info.Name, Shape: info.Shape, DType: info.DType})
		}
	}
	return all
}

// Float32To implements [policy.State].
func (s *State) Float32To(dst []float32, index, from int) error {
	for _, f := range s.files {
		infos := f.Tensors()
		if index < len(infos) {
			t := infos[index]
			return s.Read(dst, t.Name, policy.Tensor{Shape: t.Shape}, from)
		}
		index -= len(infos)
	}
	return exitcode.Bugf("reading %q: there are %d tensors fewer", s.path, index+1)
}

// Close ends the reading.
func (s *State) Close() error {
	var faults []error
	for _, f := range s.files {
		faults = append(faults, f.Close())
	}
	return errors.Join(faults...)
}

func stateMetadata(steps int) map[string]string {
	return map[string]string{"format": "pt", "steps": strconv.Itoa(steps)}
}

// OptimizerPartFile is a file of the optimizer's state that is written in pieces.
type OptimizerPartFile struct {
	file  *os.File
	slots *safetensors.Slots
}

// CreateOptimizerPart begins a file of these tensors, whose data [OptimizerPartFile.Put]
// writes.
func CreateOptimizerPart(folder, name string, tensors []policy.Tensor, steps int) (*OptimizerPartFile, error) {
	infos := make([]safetensors.Info, len(tensors))
	for i, t := range tensors {
		infos[i] = safetensors.Info{Name: t.Name, Shape: t.Shape, DType: t.DType}
	}
	f, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return nil, err
	}
	slots, err := safetensors.NewSlots(f, infos, stateMetadata(steps))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &OptimizerPartFile{f, slots}, nil
}

// Put writes the elements from.. of a tensor, each once and in any order.
func (o *OptimizerPartFile) Put(index, from int, values []float32) error {
	return o.slots.Put(index, from, values)
}

// Close ends the writing of a file, all of whose elements must be there if it was written
// without an error.
func (o *OptimizerPartFile) Close(written error) error {
	if written == nil {
		written = o.slots.Close()
	}
	return errors.Join(written, o.file.Close())
}

// writeIndex writes the index of weights in several files.
func writeIndex(folder string, files []plannedFile) error {
	return WriteFile(filepath.Join(folder, IndexFile), func(w io.Writer) error {
		_, err := w.Write(indexOf(files))
		return err
	})
}
