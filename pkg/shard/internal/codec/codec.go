// Package codec holds what tables and Arrow files have in common: how an
// encoder's bytes are sealed, how a file says what its rows are, and the errors
// of a decoder.
package codec

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Seal seals what encode writes. In blocks, parts of it can be read.
func Seal(path string, blocks bool, a seal.Attempt, m seal.Manifest, encode func(io.Writer) error) (seal.Manifest, error) {
	w, err := seal.Create(path, a)
	if err != nil {
		return seal.Manifest{}, err
	}
	if blocks {
		w.InBlocks()
	}
	if err := encode(w); err != nil {
		if w.Err() != nil { // encoders do not always wrap it
			err = w.Err()
		} else {
			err = exitcode.Bugf("encoding %q: %w", path, err)
		}
		return seal.Manifest{}, errors.Join(err, w.Abort())
	}
	return w.Commit(m)
}

// SchemaKey is the metadata key under which a file says what its rows are.
const SchemaKey = "schema"

// CheckVersion refuses a file of schema found that cannot be read as want, and
// reports whether it is older, so that columns may be missing.
func CheckVersion(found string, want seal.Schema) (older bool, err error) {
	got, err := parseSchema(found)
	switch {
	case err != nil:
		return false, err
	case got.Name != want.Name:
		return false, fmt.Errorf("it holds rows of %s, expected %s", got, want)
	case got.Major > want.Major:
		return false, fmt.Errorf("it holds rows of %s and this binary reads up to %s: use a newer lathe", got, want)
	case got.Major < want.Major:
		return false, fmt.Errorf("it holds rows of %s and this binary reads %s: use the lathe that wrote it", got, want)
	}
	return got.Minor < want.Minor, nil
}

// parseSchema is the inverse of seal.Schema.String.
func parseSchema(s string) (seal.Schema, error) {
	name, version, ok := strings.Cut(s, "/v")
	major, minor, dotted := strings.Cut(version, ".")
	majorN, errMajor := strconv.Atoi(major)
	minorN, errMinor := strconv.Atoi(minor)
	if !ok || !dotted || errMajor != nil || errMinor != nil {
		return seal.Schema{}, fmt.Errorf("schema %q is not of the form NAME/vMAJOR.MINOR", s)
	}
	return seal.Schema{Name: name, Major: majorN, Minor: minorN}, nil
}

// Recovered, when deferred, turns a panic of a decoder or encoder into an error.
func Recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("cannot be decoded: %v", r)
	}
}

// Unreadable reports a file whose digest was right and that cannot be
// decoded: another version's, or another kind of file.
func Unreadable(path string, err error) error {
	return exitcode.WithHint(exitcode.Dataf("reading %q: %w", path, err),
		"the file matches its seal; check that it is the right file and that this version of lathe wrote it")
}

// Failed is the error of reading a file, if there was one, and else its decoder's.
func Failed(path string, r *seal.ReaderAt, err error) error {
	if r != nil && r.Err() != nil {
		return r.Err()
	}
	return Unreadable(path, err)
}
