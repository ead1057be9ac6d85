package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// folderSource reads the weights of a model folder.
type folderSource struct {
	config  policy.Config
	weights *weightsFiles
	tensors []policy.Tensor
	file    []int // the file of each tensor
}

// Open opens a model folder in Hugging Face layout: config.json, and the
// weights in float32, float16 or bfloat16 in one file or in the shards that an
// index lists. Names and shapes are checked now, numbers when they are read.
// Faults are data errors that name the file.
func Open(folder string) (policy.Source, error) {
	s, err := openFolder(folder)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Load reads a model folder with all its weights.
func Load(folder string) (policy.Config, []policy.Tensor, error) {
	s, err := openFolder(folder)
	if err != nil {
		return policy.Config{}, nil, err
	}
	defer s.Close()
	tensors := s.Tensors()
	for i := range tensors {
		tensors[i].Data = make([]float32, tensors[i].Elements())
		if err := s.Float32To(tensors[i].Data, i, 0); err != nil {
			return policy.Config{}, nil, err
		}
	}
	return s.config, tensors, nil
}

func openFolder(folder string) (*folderSource, error) {
	c, err := LoadConfig(folder)
	if err != nil {
		return nil, err
	}
	w, err := openWeights(folder)
	if err != nil {
		return nil, err
	}
	s := &folderSource{config: c, weights: w}
	if err := s.match(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return s, nil
}

// computed is the ending of tensors that follow from config.json and that
// transformers stored up to version 4.31: nobody reads or keeps them.
const computed = ".self_attn.rotary_emb.inv_freq"

// match finds the model's tensors among those of the files, which must have
// these and no others.
func (s *folderSource) match() error {
	// A layer has tensors of its own: a number of layers without limit must
	// not become a list without limit.
	if stored := len(s.weights.at); s.config.NumHiddenLayers > stored {
		return exitcode.Dataf("reading %q: it has %d layers, but the weights have %d tensors",
			filepath.Join(s.weights.folder, ConfigFile), s.config.NumHiddenLayers, stored)
	}
	s.tensors = policy.Layout(s.config)
	s.file = make([]int, len(s.tensors))
	wanted := make(map[string]bool, len(s.tensors))
	for i := range s.tensors {
		t := &s.tensors[i]
		wanted[t.Name] = true
		file, info, ok := s.weights.lookup(t.Name)
		if !ok {
			return exitcode.Dataf("reading %q: there is no tensor %q", s.weights.whole(), t.Name)
		}
		if err := checkInfo(info, t.Shape); err != nil {
			return exitcode.Dataf("reading %q: %w", s.weights.path(file), err)
		}
		t.DType, s.file[i] = info.DType, file
	}
	for file, f := range s.weights.files {
		for _, info := range f.Tensors() {
			if !wanted[info.Name] && !(s.config.TieWordEmbeddings && info.Name == policy.HeadName) && !strings.HasSuffix(info.Name, computed) {
				return exitcode.Dataf("reading %q: tensor %q belongs to no part of the model", s.weights.path(file), info.Name)
			}
		}
	}
	return s.checkTiedHead()
}

// checkInfo wants a stored tensor to have a shape, and a type that can be read.
func checkInfo(info safetensors.Info, shape []int) error {
	if !slices.Equal(info.Shape, shape) {
		return fmt.Errorf("tensor %q has shape %v; %v was expected", info.Name, info.Shape, shape)
	}
	if !info.DType.Float() {
		return fmt.Errorf("tensor %q is %s; F32, F16 and BF16 can be read, quantised weights cannot", info.Name, info.DType)
	}
	return nil
}

// checkTiedHead wants a head that is stored although the configuration ties it
// to the embedding to have the embedding's numbers: transformers up to version
// 4 ignores such a head, later ones take it when it differs.
func (s *folderSource) checkTiedHead() error {
	file, info, stored := s.weights.lookup(policy.HeadName)
	if !s.config.TieWordEmbeddings || !stored {
		return nil
	}
	if err := checkInfo(info, s.tensors[0].Shape); err != nil {
		return exitcode.Dataf("reading %q: %w", s.weights.path(file), err)
	}
	const chunk = 1 << 16
	head, embed := make([]float32, chunk), make([]float32, chunk)
	for from := 0; from < info.Elements(); from += chunk {
		n := min(chunk, info.Elements()-from)
		if err := s.weights.files[file].Float32At(head[:n], policy.HeadName, from); err != nil {
			return err
		}
		if err := s.Float32To(embed[:n], 0, from); err != nil {
			return err
		}
		if !slices.Equal(head[:n], embed[:n]) {
			return exitcode.Dataf("reading %q: %s differs from %s, although %s ties them (tie_word_embeddings)",
				s.weights.path(file), policy.HeadName, policy.EmbeddingName, ConfigFile)
		}
	}
	return nil
}

func (s *folderSource) Config() policy.Config { return s.config }

func (s *folderSource) Tensors() []policy.Tensor { return slices.Clone(s.tensors) }

func (s *folderSource) Float32To(dst []float32, index, from int) error {
	file, name := s.file[index], s.tensors[index].Name
	if err := s.weights.files[file].Float32At(dst, name, from); err != nil {
		return err
	}
	if err := policy.CheckFinite(dst, name, from); err != nil {
		return exitcode.Dataf("reading %q: %w", s.weights.path(file), err)
	}
	return nil
}

func (s *folderSource) Close() error { return s.weights.Close() }
