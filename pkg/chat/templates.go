package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// The names of templates that are chosen by themselves.
const (
	defaultTemplate = "default"
	toolTemplate    = "tool_use" // for conversations with tools
)

// ErrNone is the error of a folder that says nothing about chats.
var ErrNone = errors.New("no chat format")

// Source is a template and the file that it is from.
type Source struct{ Path, Text string }

// readTemplates lists the templates of a folder by their names. Files of their
// own take the place of those in tokenizer_config.json, as in transformers.
func readTemplates(folder string, config map[string]json.RawMessage) (map[string]Source, error) {
	templates := map[string]Source{}
	read := func(name, path string) error {
		raw, err := plainfile.Read(path, longestTemplate)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !utf8.Valid(raw) {
			err = exitcode.Dataf("reading %q: it is not UTF-8", path)
		}
		templates[name] = Source{path, string(raw)}
		return err
	}
	if err := read(defaultTemplate, filepath.Join(folder, TemplateFile)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(folder, TemplatesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, exitcode.Dataf("reading %q: %w", filepath.Join(folder, TemplatesFolder), err)
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".jinja"); ok {
			if err := read(name, filepath.Join(folder, TemplatesFolder, entry.Name())); err != nil {
				return nil, err
			}
		}
	}
	if len(templates) > 0 {
		return templates, nil
	}
	if raw := config["chat_template"]; len(raw) > 0 {
		path := filepath.Join(folder, tokenizer.ConfigFile)
		if err := listTemplates(templates, path, raw); err != nil {
			return nil, exitcode.Dataf("reading %q: chat_template: %w", path, err)
		}
	}
	if len(templates) == 0 {
		return nil, exitcode.WithHint(exitcode.Dataf("%q has %w", folder, ErrNone),
			"add %s, a chat_template to %s, or a %s", TemplateFile, tokenizer.ConfigFile, tokenizer.ChatFile)
	}
	return templates, nil
}

// listTemplates reads the value of chat_template: null, a template, or a list
// of objects with a name and a template.
func listTemplates(templates map[string]Source, path string, raw json.RawMessage) error {
	var one *string
	if json.Unmarshal(raw, &one) == nil {
		if one != nil {
			templates[defaultTemplate] = Source{path, *one}
		}
		return nil
	}
	var several []struct{ Name, Template *string }
	if err := json.Unmarshal(raw, &several); err != nil {
		return fmt.Errorf("it is neither a text nor a list of objects with a name and a template")
	}
	for i, entry := range several {
		if entry.Name == nil || entry.Template == nil {
			return fmt.Errorf("entry %d lacks a name or a template", i)
		}
		if _, twice := templates[*entry.Name]; twice {
			return fmt.Errorf("%.100q appears twice", *entry.Name)
		}
		templates[*entry.Name] = Source{path, *entry.Template}
	}
	return nil
}
