package folder

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/gguf"
)

// The types of tokens, as numbered in files (enum llama_token_type).
const (
	normal      = 1
	unknown     = 2
	control     = 3
	userDefined = 4
	unused      = 5
	byteToken   = 6
)

// tokenizer is what the metadata says of one.
type tokenizer struct {
	pieces             []string
	types              []int64
	scores             []float64 // of SentencePiece; nil for others
	merges             [][2]string
	pre                preTokenizer // of byte-level BPE
	spm                bool         // BPE over characters with byte fallback, as of SentencePiece
	spacePrefix        bool         // spm: a text begins as after a space
	addBOS, addEOS     bool
	bos, eos, pad, unk int // -1 for none
	eot                int // ends a turn of a chat
	templates          map[string]string
}

const key = "tokenizer.ggml."

// readTokenizer reads the tokenizer of a file. pre takes the place of the pre-tokenizer
// that the file names.
func readTokenizer(m gguf.Metadata, pre string, shape *model) (*tokenizer, error) {
	r := &reader{m: m}
	t := &tokenizer{
		pieces: texts(r, "tokens"), types: list[int64](r, "token_type"),
		bos: r.token("bos_token_id"), eos: r.token("eos_token_id"), pad: r.token("padding_token_id"), unk: r.token("unknown_token_id"),
		eot: r.token("eot_token_id"), templates: r.templates(),
	}
	kind := get[string](r, "model", "")
	if r.err != nil {
		return nil, r.err
	}
	if len(t.pieces) == 0 || len(t.pieces) > shape.vocabulary {
		return nil, fmt.Errorf("metadata: %q has %d tokens, and %q has %d rows", key+"tokens", len(t.pieces), embedding, shape.vocabulary)
	}
	if err := t.checkTokens(); err != nil {
		return nil, err
	}
	switch kind {
	case "gpt2":
		return t, t.readBPE(r, pre, shape.name)
	case "llama":
		if pre != "" {
			return nil, fmt.Errorf("--pre: got %q, and this tokenizer is of SentencePiece, which has no pre-tokenizer", pre)
		}
		return t, t.readSPM(r)
	}
	return nil, fmt.Errorf("metadata: %q is %.100q; gpt2 and llama are implemented", key+"model", kind)
}

func (t *tokenizer) checkTokens() error {
	if t.types == nil {
		t.types = slices.Repeat([]int64{normal}, len(t.pieces))
		for _, id := range []int{t.bos, t.eos, t.pad, t.eot} {
			if id >= 0 && id < len(t.types) {
				t.types[id] = control
			}
		}
	}
	if len(t.types) != len(t.pieces) {
		return fmt.Errorf("metadata: %q has %d entries for %d tokens", key+"token_type", len(t.types), len(t.pieces))
	}
	// What fills the vocabulary up at its end is no token of the original.
	last := len(t.pieces)
	for last > 1 && t.types[last-1] == unused {
		last--
	}
	t.pieces, t.types = t.pieces[:last], t.types[:last]
	ids := map[string]int{}
	for id, piece := range t.pieces {
		if !utf8.ValidString(piece) || piece == "" {
			return fmt.Errorf("metadata: %q: token %d is empty or no UTF-8: %.100q", key+"tokens", id, piece)
		}
		if first, twice := ids[piece]; twice {
			return fmt.Errorf("metadata: %q: tokens %d and %d are the same: %.100q", key+"tokens", first, id, piece)
		}
		ids[piece] = id
		if t.types[id] < normal || t.types[id] > byteToken {
			return fmt.Errorf("metadata: %q: token %d has the type %d, which GGUF does not have", key+"token_type", id, t.types[id])
		}
	}
	for name, id := range map[string]int{"bos": t.bos, "eos": t.eos, "padding": t.pad, "unknown": t.unk, "eot": t.eot} {
		if id >= last {
			return fmt.Errorf("metadata: \"%s%s_token_id\" is %d, and there are %d tokens", key, name, id, last)
		}
	}
	return nil
}

// readBPE reads byte-level BPE.
func (t *tokenizer) readBPE(r *reader, pre, architecture string) error {
	named := get[string](r, "pre", "")
	if named == "" && strings.HasPrefix(architecture, "qwen") {
		named = "qwen2" // all models of the architecture have it; early files do not name it
	}
	pre = cmp.Or(pre, named)
	if pre == "" {
		return fmt.Errorf("metadata: %q is missing: the file was made before llama.cpp knew pre-tokenizers; name it with --pre, one of %s", key+"pre", preNames())
	}
	var known bool
	if t.pre, known = preTokenizers[pre]; !known {
		return fmt.Errorf("the pre-tokenizer %.100q is not implemented: %s are", pre, preNames())
	}
	t.addBOS = get(r, "add_bos_token", t.pre.addBOS)
	t.addEOS = get(r, "add_eos_token", false)
	ids := t.ids()
	merges := texts(r, "merges")
	if r.err == nil && len(merges) == 0 {
		return fmt.Errorf("metadata: %q is missing", key+"merges")
	}
	for i, merge := range merges {
		left, right, two := strings.Cut(merge, " ")
		for _, piece := range []string{left, right, left + right} {
			if _, there := ids[piece]; !there || !two {
				return fmt.Errorf("metadata: %q: entry %d, %.100q, is not a pair of tokens that make a token", key+"merges", i, merge)
			}
		}
		t.merges = append(t.merges, [2]string{left, right})
	}
	return r.err
}

// spaceMark stands for a space in the pieces of SentencePiece.
const spaceMark = "▁"

// readSPM reads BPE of SentencePiece.
func (t *tokenizer) readSPM(r *reader) error {
	t.spm = true
	t.spacePrefix = get(r, "add_space_prefix", true)
	t.addBOS = get(r, "add_bos_token", true)
	t.addEOS = get(r, "add_eos_token", false)
	t.scores = list[float64](r, "scores")
	if r.err != nil {
		return r.err
	}
	if len(t.scores) < len(t.pieces) {
		return fmt.Errorf("metadata: %q has %d entries for %d tokens", key+"scores", len(t.scores), len(t.pieces))
	}
	if t.unk < 0 {
		t.unk = slices.Index(t.types, unknown)
	}
	bytes := 0
	for id, kind := range t.types {
		if math.IsNaN(t.scores[id]) {
			return fmt.Errorf("metadata: %q: entry %d is no number", key+"scores", id)
		}
		switch {
		case kind == byteToken:
			bytes++
		case kind == userDefined:
			t.scores[id] = 0 // above all others, as SentencePiece has them
			// llama.cpp writes the spaces of such a token out.
			if marked := strings.ReplaceAll(t.pieces[id], " ", spaceMark); strings.Trim(marked, spaceMark) == "" {
				t.pieces[id] = marked
			}
		}
	}
	if bytes != 256 {
		return fmt.Errorf("the tokenizer has %d tokens for bytes, want 256: one without byte fallback is not implemented", bytes)
	}
	t.merges = mergesOf(t.ids(), t.pieces, t.scores)
	return nil
}

// mergesOf makes merges of the scores of pieces, in the order of transformers
// (convert_slow_tokenizer.py, generate_merges): every way to make a piece of two, the
// pieces with the highest scores first.
func mergesOf(ids map[string]int, pieces []string, scores []float64) [][2]string {
	type merge struct {
		left, right string
		score       float64
		lengths     [2]int
	}
	all := []merge{}
	for id, piece := range pieces {
		first := len(all)
		n := utf8.RuneCountInString(piece)
		at := 0
		for cut := range piece {
			if cut > 0 {
				at++
				left, right := piece[:cut], piece[cut:]
				_, there := ids[left]
				if _, both := ids[right]; there && both {
					all = append(all, merge{left, right, scores[id], [2]int{at, n - at}})
				}
			}
		}
		slices.SortStableFunc(all[first:], func(a, b merge) int {
			return cmp.Or(cmp.Compare(ids[a.left], ids[b.left]), cmp.Compare(ids[a.right], ids[b.right]))
		})
	}
	slices.SortStableFunc(all, func(a, b merge) int {
		return -cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.lengths[0], b.lengths[0]), cmp.Compare(a.lengths[1], b.lengths[1]))
	})
	merges := make([][2]string, len(all))
	for i, m := range all {
		merges[i] = [2]string{m.left, m.right}
	}
	return merges
}

func (t *tokenizer) ids() map[string]int {
	ids := make(map[string]int, len(t.pieces))
	for id, piece := range t.pieces {
		ids[piece] = id
	}
	return ids
}

// ofTurns are tokens that end a turn of a chat, as llama.cpp knows them by their names.
var ofTurns = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"}

// stops are the tokens that end a response.
func (t *tokenizer) stops() (stops []int) {
	add := func(id int) {
		if id >= 0 && !slices.Contains(stops, id) {
			stops = append(stops, id)
		}
	}
	add(t.eos)
	add(t.eot)
	if len(t.templates) > 0 {
		for id, piece := range t.pieces {
			if t.types[id] != normal && slices.Contains(ofTurns, piece) {
				add(id)
			}
		}
	}
	return stops
}

// reader reads the metadata of a tokenizer and remembers the first error.
type reader struct {
	m   gguf.Metadata
	err error
}

func get[T any](r *reader, name string, missing T) T {
	value, there, err := gguf.Get[T](r.m, key+name)
	if err != nil && r.err == nil {
		r.err = err
	}
	if !there || err != nil {
		return missing
	}
	return value
}

func texts(r *reader, name string) []string { return list[string](r, name) }

func list[T any](r *reader, name string) []T { return get[[]T](r, name, nil) }

// token reads the id of a token; -1 where there is none.
func (r *reader) token(name string) int {
	id := get[int64](r, name, -1)
	if id < 0 || id >= math.MaxUint32 {
		return -1
	}
	return int(min(id, math.MaxInt32))
}

// templates are the chat templates by their names: default is the one without a name.
func (r *reader) templates() map[string]string {
	const name = "tokenizer.chat_template"
	found := map[string]string{}
	for key := range r.m {
		of, has := strings.CutPrefix(key, name)
		of, named := strings.CutPrefix(of, ".")
		if !has || !named && key != name {
			continue
		}
		text, _, err := gguf.Get[string](r.m, key)
		if err != nil && r.err == nil {
			r.err = err
		}
		found[cmp.Or(of, "default")] = text
	}
	return found
}
