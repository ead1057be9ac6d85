package folder

import (
	"maps"
	"slices"
)

// part is a component of a tokenizer.json.
type part map[string]any

// preTokenizer is how a text is split before byte-level BPE, by the name that llama.cpp
// has for it: as the tokenizer.json of the original has it.
type preTokenizer struct {
	parts        []part
	composed     bool // texts are brought to NFC
	ignoreMerges bool // a word that is a token is that token
	addBOS       bool // unless the file says otherwise
}

func split(pattern string) part {
	return part{"type": "Split", "pattern": part{"Regex": pattern}, "behavior": "Isolated", "invert": false}
}

func digits(individual bool) part { return part{"type": "Digits", "individual_digits": individual} }

// byteLevel splits by the pattern of GPT-2 if it is told to, and spells bytes.
func byteLevel(splits bool) part {
	return part{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": splits}
}

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	restOfLlama3 = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3       = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + restOfLlama3
	qwen2        = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + restOfLlama3

	upper     = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower     = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	restOf4o  = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekken    = upper + `*` + lower + `+|` + upper + `+` + lower + `*|\p{N}` + restOf4o
	gpt4o     = upper + `*` + lower + `+` + contractions + `?|` + upper + `+` + lower + `*` + contractions + `?|\p{N}{1,3}` + restOf4o
	ideograms = `[一-龥぀-ゟ゠-ヿ]+`
	deepseek3 = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var (
	asGPT2   = preTokenizer{parts: []part{byteLevel(true)}}
	asSmolLM = preTokenizer{parts: []part{digits(true), byteLevel(true)}}
	asLlama3 = preTokenizer{parts: []part{split(llama3), byteLevel(false)}, ignoreMerges: true, addBOS: true}
	asQwen2  = preTokenizer{parts: []part{split(qwen2), byteLevel(false)}, composed: true}
)

// preTokenizers are those of models with the architectures that are imported.
var preTokenizers = map[string]preTokenizer{
	"gpt-2": asGPT2, "phi-2": asGPT2, "olmo": asGPT2,
	"smollm": asSmolLM, "starcoder": asSmolLM, "refact": asSmolLM, "codeshell": asSmolLM,
	"llama-bpe": asLlama3, "llama3": asLlama3, "llama-v3": asLlama3,
	"smaug-bpe": {parts: asLlama3.parts},
	"dbrx":      {parts: asLlama3.parts},
	"qwen2":     asQwen2, "deepseek-r1-qwen": asQwen2, "megrez": asQwen2,
	"tekken":         {parts: []part{split(tekken), byteLevel(false)}, ignoreMerges: true, addBOS: true},
	"gpt-4o":         {parts: []part{split(gpt4o), byteLevel(false)}},
	"deepseek-llm":   asDeepSeek(false, lettersOfDeepSeek, marksOfDeepSeek, `\s+$`, ideogramsOfDeepSeek),
	"deepseek-coder": asDeepSeek(true, `\s?\p{L}+`, `\s?\p{P}+`, ideogramsOfDeepSeek),
	"deepseek-v3":    {parts: []part{split(`\p{N}{1,3}`), split(ideograms), split(deepseek3), byteLevel(false)}},
	// What llama.cpp does where the original is not known to it.
	"default": {parts: []part{split(`[\p{P}\$\+<=>\^~\|]+`), split(gpt2AsSplit), split(`\p{N}+`), split(`[0-9][0-9][0-9]`), byteLevel(false)}},
}

const gpt2AsSplit = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`

func preNames() []string { return slices.Sorted(maps.Keys(preTokenizers)) }

// sequence is several parts as one.
func sequence(list string, parts ...part) any {
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return part{"type": "Sequence", list: parts}
}

// json is the content of tokenizer.json.
func (t *tokenizer) json() part {
	file := part{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": t.added(), "model": t.model()}
	if t.spm {
		replace := part{"type": "Replace", "pattern": part{"String": " "}, "content": spaceMark}
		normalizers := []part{replace}
		decoders := []part{
			{"type": "Replace", "pattern": part{"String": spaceMark}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
		}
		if t.spacePrefix {
			normalizers = []part{{"type": "Prepend", "prepend": spaceMark}, replace}
			decoders = append(decoders, part{"type": "Strip", "content": " ", "start": 1, "stop": 0})
		}
		file["normalizer"], file["decoder"] = sequence("normalizers", normalizers...), sequence("decoders", decoders...)
		file["pre_tokenizer"], file["post_processor"] = nil, sequence("processors", t.around()...)
		return file
	}
	file["normalizer"] = nil
	if t.pre.composed {
		file["normalizer"] = part{"type": "NFC"}
	}
	file["pre_tokenizer"], file["decoder"] = sequence("pretokenizers", t.pre.parts...), byteLevel(true)
	file["post_processor"] = sequence("processors", append([]part{byteLevel(true)}, t.around()...)...)
	return file
}

// around puts the tokens that begin and end a text around it.
func (t *tokenizer) around() []part {
	first, last := t.addBOS && t.bos >= 0, t.addEOS && t.eos >= 0
	if !first && !last {
		return nil
	}
	special := part{}
	token := func(id int, kind int) part {
		content := t.pieces[id]
		special[content] = part{"id": content, "ids": []int{id}, "tokens": []string{content}}
		return part{"SpecialToken": part{"id": content, "type_id": kind}}
	}
	template := func(texts ...string) (parts []part) {
		for kind, text := range texts {
			if first {
				parts = append(parts, token(t.bos, kind))
			}
			parts = append(parts, part{"Sequence": part{"id": text, "type_id": kind}})
			if last {
				parts = append(parts, token(t.eos, kind))
			}
		}
		return parts
	}
	return []part{{"type": "TemplateProcessing", "single": template("A"), "pair": template("A", "B"), "special_tokens": special}}
}

// isAdded reports whether a token is found in a text before the text is split.
func (t *tokenizer) isAdded(id int) bool {
	switch t.types[id] {
	case control, userDefined:
		return true
	case unknown:
		return t.spm
	}
	return false
}

func (t *tokenizer) added() []part {
	added := []part{}
	for id, piece := range t.pieces {
		if t.isAdded(id) {
			added = append(added, part{
				"id": id, "content": piece, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
				"special": t.types[id] != userDefined,
			})
		}
	}
	return added
}

func (t *tokenizer) model() part {
	// Added tokens behind all others are not in the vocabulary, as in the originals.
	end := len(t.pieces)
	for !t.spm && end > 0 && t.isAdded(end-1) {
		end--
	}
	vocabulary := make(map[string]int, end)
	for id, piece := range t.pieces[:end] {
		vocabulary[piece] = id
	}
	model := part{
		"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
		"fuse_unk": t.spm, "byte_fallback": t.spm, "ignore_merges": t.pre.ignoreMerges, "vocab": vocabulary, "merges": t.merges,
	}
	if t.spm && t.unk >= 0 {
		model["unk_token"] = t.pieces[t.unk]
	}
	return model
}

// configJSON is the content of tokenizer_config.json.
func (t *tokenizer) configJSON(positions int) part {
	name := func(id int) any {
		if id < 0 {
			return nil
		}
		return t.pieces[id]
	}
	config := part{
		"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": positions, "clean_up_tokenization_spaces": false,
		"bos_token": name(t.bos), "eos_token": name(t.eos), "pad_token": name(t.pad), "unk_token": name(t.unk),
		"add_bos_token": t.addBOS, "add_eos_token": t.addEOS,
	}
	switch names := slices.Sorted(maps.Keys(t.templates)); {
	case len(names) == 1:
		config["chat_template"] = t.templates[names[0]]
	case len(names) > 1:
		var named []part
		for _, name := range names {
			named = append(named, part{"name": name, "template": t.templates[name]})
		}
		config["chat_template"] = named
	}
	return config
}
