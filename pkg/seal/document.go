package seal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// WriteBytes seals a small file.
func WriteBytes(path string, data []byte, a Attempt, m Manifest) (Manifest, error) {
	w, err := Create(path, a)
	if err != nil {
		return Manifest{}, err
	}
	if _, err := w.Write(data); err != nil {
		return Manifest{}, errors.Join(err, w.Abort())
	}
	return w.Commit(m)
}

// WriteJSON seals v as an indented JSON document.
func WriteJSON(path string, v any, a Attempt, m Manifest) (Manifest, error) {
	content, err := plainjson.Document(v)
	if err != nil {
		return Manifest{}, exitcode.Bugf("encoding %q: %w", path, err)
	}
	return WriteBytes(path, content, a, m)
}

// OpenDocument is [Open] for what is parsed as one document, of at most
// [plainfile.MaxDocument] bytes.
func OpenDocument(ctx context.Context, path string, o Options) ([]byte, Manifest, error) {
	return openWhole(ctx, path, o, func(path string, size int64) error {
		if size > plainfile.MaxDocument {
			return damaged(path, fmt.Sprintf("it has %d bytes; a document has at most %d", size, plainfile.MaxDocument))
		}
		return nil
	})
}

// ReadJSON decodes a sealed JSON document into v. Fields that v does not have
// are ignored.
func ReadJSON(ctx context.Context, path string, o Options, v any) (Manifest, error) {
	data, m, err := OpenDocument(ctx, path, o)
	if err != nil {
		return Manifest{}, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return Manifest{}, damaged(path, fmt.Sprintf("its bytes match the seal, but are not the expected JSON: %v", err))
	}
	return m, nil
}

// Claim creates the file path with the given content, unless it is there:
// of any number of callers on any number of nodes exactly one wins. The
// others get the winner's content. The file is not sealed: it is a mark.
func Claim(path string, content []byte, a Attempt) (won bool, existing []byte, err error) {
	path = filepath.Clean(path)
	t, err := newTempFile(path, a, content)
	if err != nil {
		return false, nil, err
	}
	defer t.remove()
	won, err = t.claim(content)
	if err != nil {
		return false, nil, fmt.Errorf("claiming %q: %w", path, err)
	}
	if won {
		return true, nil, syncFolder(filepath.Dir(path))
	}
	existing, err = plainfile.Read(path, plainfile.MaxDocument)
	if err != nil {
		return false, nil, fmt.Errorf("claiming %q: %w", path, err)
	}
	return false, existing, nil
}

// claim is put without its fallback to rename, which could replace a claim.
// Where links are not supported an exclusive create takes their place; a
// reader may then see a claim before its content is complete.
func (t *tempFile) claim(content []byte) (won bool, err error) {
	err = link(t.temp, t.path)
	switch {
	case err == nil, sameFile(t.temp, t.path):
		return true, nil
	case errors.Is(err, os.ErrExist):
		return false, nil
	case !noLinks(err):
		return false, err
	}
	f, err := os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return true, errors.Join(err, f.Close())
}
