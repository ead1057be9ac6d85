package tokenizer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// applyFolder honours what the files beside tokenizer.json change about the
// tokenizer that transformers makes of a folder. Of what would add ids that
// tokenizer.json lacks, added_tokens_decoder may, with the ids that transformers
// gives; the rest is refused. special_tokens_map.json and
// added_tokens.json count only where tokenizer_config.json has no
// added_tokens_decoder, as in transformers; a role in the former takes the
// place of the same role in tokenizer_config.json.
func (t *Tokenizer) applyFolder(folder string) error {
	config, err := plainfile.ReadFields(filepath.Join(folder, ConfigFile), maxFileBytes)
	if err != nil {
		return err
	}
	files := []fieldsOfFile{{ConfigFile, config, t.applyConfig}}
	if isNull(config["added_tokens_decoder"]) {
		specials, err := plainfile.ReadFields(filepath.Join(folder, SpecialsFile), maxFileBytes)
		if err != nil {
			return err
		}
		for key := range specials {
			if strings.HasSuffix(key, "_token") {
				delete(config, key)
			}
		}
		added, err := plainfile.ReadFields(filepath.Join(folder, "added_tokens.json"), maxFileBytes)
		if err != nil {
			return err
		}
		files = append(files, fieldsOfFile{SpecialsFile, specials, t.applyRoles}, fieldsOfFile{"added_tokens.json", added, t.checkAdded})
	}
	model, err := plainfile.ReadFields(filepath.Join(folder, "config.json"), maxFileBytes)
	if err != nil {
		return err
	}
	for _, file := range append(files, fieldsOfFile{"config.json", model, t.checkModelSize}) {
		if err := file.apply(file.fields); err != nil {
			return exitcode.Dataf("reading %q: %w", filepath.Join(folder, file.name), err)
		}
	}
	return t.setAdded()
}

type fieldsOfFile struct {
	name   string
	fields map[string]json.RawMessage
	apply  func(map[string]json.RawMessage) error
}

// applyConfig takes flags of added tokens and the tokens that have a role. Of
// the other settings it refuses those that would change ids and are not
// implemented; add_bos_token and add_eos_token mean nothing beside a
// tokenizer.json.
func (t *Tokenizer) applyConfig(config map[string]json.RawMessage) error {
	if string(config["split_special_tokens"]) == "true" {
		return fmt.Errorf("split_special_tokens is set, which is not implemented")
	}
	if prefix := config["add_prefix_space"]; !isNull(prefix) && string(prefix) != strconv.FormatBool(t.prefixes) {
		return fmt.Errorf("add_prefix_space is %.100s, against %v in %s", prefix, t.prefixes, TokenizerFile)
	}
	if err := t.applyAdded(config["added_tokens_decoder"]); err != nil {
		return fmt.Errorf("added_tokens_decoder: %w", err)
	}
	return t.applyRoles(config)
}

// applyAdded takes the flags of added tokens, and tokens that tokenizer.json lacks;
// special is never taken away. Transformers gives tokens that are lacking the next
// free ids, in the order of their own; others than their own are refused.
func (t *Tokenizer) applyAdded(raw json.RawMessage) error {
	var tokens map[string]json.RawMessage
	if isNull(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, &tokens); err != nil {
		return err
	}
	number := func(key string) int { n, _ := strconv.Atoi(key); return n } // a key that is none is no id
	byID := func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) }
	for _, key := range slices.SortedFunc(maps.Keys(tokens), byID) {
		changed, err := parseAdded(tokens[key], "content")
		if err != nil {
			return fmt.Errorf("token %.100s: %w", key, err)
		}
		at := t.indexAdded(changed.content)
		if id, ok := t.lookUp(changed.content); at < 0 && ok && strconv.Itoa(int(id)) == key {
			at = t.promote(changed.content, id)
		}
		if _, known := t.lookUp(changed.content); at < 0 && !known && key == strconv.Itoa(int(t.free)) {
			at = t.promote(changed.content, t.free)
			t.pieces = append(t.pieces, "") // setAdded fills it in
			if t.names != nil {
				t.names = append(t.names, "")
			}
			t.free++
		}
		if at < 0 || strconv.Itoa(int(t.added[at].id)) != key {
			return fmt.Errorf("token %.100q with id %.100s is not an added token of %s, and the next free id is %d", changed.content, key, TokenizerFile, t.free)
		}
		changed.id = t.added[at].id
		changed.special = changed.special || t.added[at].special
		t.added[at] = changed
	}
	return nil
}

// applyRoles makes special tokens of those that have a role (any field that
// ends in _token, and the values of extra_special_tokens where that is an
// object) and, of those that are merely listed, of the ones that were no added
// tokens so far.
func (t *Tokenizer) applyRoles(config map[string]json.RawMessage) error {
	if t.named == nil {
		t.named = map[string]string{}
	}
	roles := map[string]*string{"bos_token": &t.roles.BOS, "eos_token": &t.roles.EOS, "pad_token": &t.roles.Pad}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		role, known := roles[key]
		if !strings.HasSuffix(key, "_token") {
			continue
		}
		content, err := tokenContent(config[key])
		if err != nil && !known {
			continue // a switch, such as add_bos_token
		}
		if err == nil {
			err = t.makeSpecial(content, true)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if known {
			*role = content
		}
		if !isNull(config[key]) {
			t.named[key] = content
		}
	}
	for _, key := range []string{"additional_special_tokens", "extra_special_tokens"} {
		contents, named, err := tokenContents(config[key])
		for _, content := range contents {
			if err == nil {
				err = t.makeSpecial(content, named)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// makeSpecial makes a special token of a token of the vocabulary that is not
// an added one, and with named of an added one, too.
func (t *Tokenizer) makeSpecial(content string, named bool) error {
	if content == "" {
		return nil
	}
	if at := t.indexAdded(content); at >= 0 {
		t.added[at].special = t.added[at].special || named
		return nil
	}
	id, ok := t.lookUp(content)
	if !ok {
		return fmt.Errorf("%s has no token %.100q", TokenizerFile, content)
	}
	t.added[t.promote(content, id)].special = true
	return nil
}

// lookUp finds a token of the model's vocabulary by its name.
func (t *Tokenizer) lookUp(name string) (int32, bool) {
	key, ok := t.key(name)
	id, known := t.tokens[key]
	return id, ok && known
}

// promote makes an added token of one of the model's, and returns its index.
func (t *Tokenizer) promote(content string, id int32) int {
	at := len(t.added)
	t.addedAt[content] = at
	t.added = append(t.added, addedToken{id: id, content: content})
	return at
}

// checkAdded refuses added tokens that tokenizer.json lacks.
func (t *Tokenizer) checkAdded(tokens map[string]json.RawMessage) error {
	for _, content := range slices.Sorted(maps.Keys(tokens)) {
		at := t.indexAdded(content)
		if at < 0 || strconv.Itoa(int(t.added[at].id)) != string(tokens[content]) {
			return fmt.Errorf("token %.100q with id %.100s is not an added token of %s", content, tokens[content], TokenizerFile)
		}
	}
	return nil
}

// checkModelSize refuses a tokenizer with more ids than the model of its
// folder, but for special tokens that no text begins or ends with: Gemma 3
// without images has one for images, and others one for padding. Messages
// spell their names out. The other way round is common, see the package's
// comment.
func (t *Tokenizer) checkModelSize(config map[string]json.RawMessage) error {
	var size int
	if isNull(config["vocab_size"]) {
		return nil
	}
	if err := json.Unmarshal(config["vocab_size"], &size); err != nil {
		return fmt.Errorf("vocab_size: %w", err)
	}
	beyond := t.Size() - size
	for _, a := range t.added {
		if int(a.id) >= size && a.special && a.content != t.roles.BOS && a.content != t.roles.EOS {
			beyond--
		}
	}
	if beyond > 0 {
		return fmt.Errorf("vocab_size is %d, and %s has %d tokens", size, TokenizerFile, t.Size())
	}
	return nil
}

// tokenContent reads a token that is a string, null, or an object with a
// content.
func tokenContent(raw json.RawMessage) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	var content string
	if json.Unmarshal(raw, &content) == nil {
		return content, nil
	}
	var object struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(raw, &object)
	return object.Content, err
}

// tokenContents reads a list of tokens, or an object with tokens as values,
// which names them.
func tokenContents(raw json.RawMessage) (contents []string, named bool, err error) {
	if isNull(raw) {
		return nil, false, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, false, err
		}
		named = true
		for _, name := range slices.Sorted(maps.Keys(object)) {
			list = append(list, object[name])
		}
	}
	contents = make([]string, len(list))
	for i, one := range list {
		if contents[i], err = tokenContent(one); err != nil {
			return nil, false, err
		}
	}
	return contents, named, nil
}
