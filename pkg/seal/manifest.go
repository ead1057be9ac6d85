package seal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// The version of the manifest's format. A reader refuses another major
// version and ignores fields that it does not know.
const (
	formatName  = "lathe-manifest/"
	formatMajor = 1
	formatMinor = 3
)

// maxManifestBytes bounds what a reader is willing to parse. That of a batch names every
// shard that went into it, in some 150 bytes each.
const maxManifestBytes = 128 << 20

// Kind says what a manifest seals.
type Kind string

// The kinds of sealed things.
const (
	KindFile   Kind = "file"
	KindFolder Kind = "folder"
)

// Schema names the layout of a file's rows.
type Schema struct {
	Name  string `json:"name"`
	Major int    `json:"major"` // readers refuse a newer one
	Minor int    `json:"minor"` // grows when a column is added
}

func (s Schema) String() string { return fmt.Sprintf("%s/v%d.%d", s.Name, s.Major, s.Minor) }

// File is one file of a sealed folder.
type File struct {
	Name   string `json:"name"` // relative to the folder, with forward slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Input is one sealed file that went into another.
type Input struct {
	Path          string `json:"path"` // relative to the run, with forward slashes
	ContentSHA256 string `json:"content_sha256"`
}

// Manifest describes one sealed file or folder. Commit fills in everything
// that it can know by itself: format, name, kind, files, sizes, digests,
// attempt, host, job, pid, times and binary version.
type Manifest struct {
	Format  string   `json:"format"` // lathe-manifest/MAJOR.MINOR
	Name    string   `json:"name"`   // base name of the file or folder
	Kind    Kind     `json:"kind"`
	Files   []File   `json:"files,omitempty"`   // of a folder, sorted by name
	Blocks  *Blocks  `json:"blocks,omitempty"`  // of a file of which parts are read
	Members []Member `json:"members,omitempty"` // of a pack, sorted by name
	Schema  Schema   `json:"schema"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`  // of a folder: the sum over its files
	SHA256  string   `json:"sha256"` // of the bytes; of a folder: of its sorted file list, see FolderDigest
	// ContentSHA256 leaves out volatile columns (times, hosts), so that it is
	// the same for every attempt. It equals SHA256 when there are none.
	ContentSHA256 string `json:"content_sha256"`

	Inputs        []Input `json:"inputs,omitempty"`
	Run           string  `json:"run"` // id of the run that it was made in; empty for none
	RecipeSHA256  string  `json:"recipe_sha256"`
	Seed          uint64  `json:"seed"`
	PolicyVersion int     `json:"policy_version"` // -1 for none
	Stage         string  `json:"stage"`
	Iteration     int     `json:"iteration"`
	Step          int     `json:"step"` // of the optimizer, inside an iteration
	Wave          int     `json:"wave"` // of rollouts and scores
	Shard         int     `json:"shard"`
	Of            int     `json:"of"` // number of shards

	Attempt       int       `json:"attempt"`
	Host          string    `json:"host"`
	Job           string    `json:"job"` // JOB_TASK
	PID           int       `json:"pid"`
	Started       time.Time `json:"started"` // UTC; compare with times of the same host only
	Ended         time.Time `json:"ended"`
	ExitCause     string    `json:"exit_cause"` // done unless the writer says otherwise
	BinaryVersion string    `json:"binary_version"`

	Metrics map[string]float64         `json:"metrics,omitempty"` // finite; the same for every attempt
	Usage   map[string]float64         `json:"usage,omitempty"`   // finite; what the attempt took: a device's seconds, requests
	Notes   map[string]json.RawMessage `json:"notes,omitempty"`   // for example an algorithm preset, printed whole
}

// Note adds a note, whose value is written as JSON.
func (m *Manifest) Note(name string, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if m.Notes == nil {
		m.Notes = map[string]json.RawMessage{}
	}
	m.Notes[name] = encoded
	return nil
}

// ManifestPath is where the manifest of a file or folder lies.
func ManifestPath(path string) string { return filepath.Clean(path) + ".json" }

// fill completes a manifest with what only the writer knows.
func (m *Manifest) fill(path string, a Attempt, started time.Time, d digest) {
	m.Format = fmt.Sprintf("%s%d.%d", formatName, formatMajor, formatMinor)
	m.Name = filepath.Base(path)
	m.Kind, m.Files, m.Bytes, m.SHA256 = d.kind, d.files, d.bytes, d.sha256
	m.ContentSHA256 = cmp.Or(m.ContentSHA256, m.SHA256)
	m.Attempt, m.Host, m.PID = a.Number, a.Host, a.pid()
	m.Job = plain(a.JobID) + "_" + plain(a.TaskID)
	if m.Started.IsZero() {
		m.Started = started
	}
	m.Started, m.Ended = m.Started.UTC().Round(0), a.now().UTC().Round(0)
	m.ExitCause = cmp.Or(m.ExitCause, "done")
	if late := time.Duration(lateNanoseconds.Load()); late > 0 {
		usage := map[string]float64{UsageLateFiles: late.Seconds()}
		maps.Copy(usage, m.Usage) // the caller may have given one map to several outputs
		m.Usage = usage
	}
	if m.BinaryVersion == "" {
		m.BinaryVersion = binaryVersion()
	}
}

// binaryVersion is the module version and source revision of this binary.
func binaryVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && !strings.Contains(version, s.Value[:min(12, len(s.Value))]):
			version += " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true" && !strings.Contains(version, "dirty"):
			version += " dirty"
		}
	}
	return strings.TrimSpace(version)
}

// A manifest ends with a digest of everything before it, so that a flipped
// digit in a metric is damage and not another metric:
//
//	,
//	  "manifest_sha256": "<64 hexadecimal digits>"
//	}
const (
	tailHead = ",\n  \"manifest_sha256\": \""
	tailEnd  = "\"\n}\n"
	tailLen  = len(tailHead) + 2*sha256.Size + len(tailEnd)
)

// encode returns the bytes of the manifest file.
func (m *Manifest) encode() ([]byte, error) {
	for _, numbers := range []map[string]float64{m.Metrics, m.Usage} {
		for name, value := range numbers {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				return nil, fmt.Errorf("metric %q is %v; a manifest holds finite numbers", name, value)
			}
		}
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSuffix(body, []byte("\n}"))
	sum := sha256.Sum256(body)
	body = append(body, tailHead...)
	body = hex.AppendEncode(body, sum[:])
	return append(body, tailEnd...), nil
}

// parseManifest is the inverse of encode.
func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if len(data) == 0 {
		return m, errors.New("the manifest is empty")
	}
	if len(data) > maxManifestBytes {
		return m, fmt.Errorf("the manifest has more than %d bytes", maxManifestBytes)
	}
	if len(data) <= tailLen {
		return m, errors.New("the manifest is cut short")
	}
	body, tail := data[:len(data)-tailLen], string(data[len(data)-tailLen:])
	sum := sha256.Sum256(body)
	if tail != tailHead+hex.EncodeToString(sum[:])+tailEnd {
		return m, errors.New("the manifest does not match its own manifest_sha256: it was cut short, damaged or edited")
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("the manifest is not one that this version writes: %w", err)
	}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// check reports the first field that no writer of this version could mean.
func (m *Manifest) check() error {
	version, ok := strings.CutPrefix(m.Format, formatName)
	major, minor, dotted := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if _, errMinor := strconv.Atoi(minor); !ok || !dotted || err != nil || errMinor != nil {
		return fmt.Errorf("the manifest's format is %q, expected %q", m.Format, fmt.Sprintf("%s%d.N", formatName, formatMajor))
	}
	if n != formatMajor {
		return fmt.Errorf("the manifest has format %q; this binary reads format %d: use the version of lathe that wrote it (%s)", m.Format, formatMajor, m.BinaryVersion)
	}
	if m.Name == "" || m.Name != filepath.Base(m.Name) {
		return fmt.Errorf("the manifest's name %q is not a file name", m.Name)
	}
	if m.Kind != KindFile && m.Kind != KindFolder {
		return fmt.Errorf("the manifest's kind is %q, expected file or folder", m.Kind)
	}
	if m.Kind == KindFile && len(m.Files) > 0 {
		return errors.New("the manifest of a file lists files")
	}
	if m.Bytes < 0 || m.Rows < 0 {
		return fmt.Errorf("the manifest has %d bytes and %d rows", m.Bytes, m.Rows)
	}
	if !isDigest(m.SHA256) || !isDigest(m.ContentSHA256) {
		return errors.New("the manifest's sha256 is not 64 hexadecimal digits")
	}
	if m.Blocks != nil {
		if err := m.Blocks.check(m.Bytes); err != nil {
			return err
		}
	}
	if err := checkMembers(m.Members, m.Bytes); err != nil {
		return err
	}
	for i, f := range m.Files {
		if f.Bytes < 0 || !isDigest(f.SHA256) || !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("the manifest's entry for file %q is out of range", f.Name)
		}
		if i > 0 && m.Files[i-1].Name >= f.Name {
			return fmt.Errorf("the manifest's files are not sorted at %q", f.Name)
		}
	}
	return nil
}

func isDigest(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// readManifest reads the manifest of path and checks that it is about path.
// raw is what the file holds, also when it does not parse.
func readManifest(path string) (m Manifest, raw []byte, err error) {
	m, raw, err = readManifestAt(ManifestPath(path), path)
	if errors.Is(err, fs.ErrNotExist) {
		if m, raw, packed := readPackedManifest(path); !errors.Is(packed, fs.ErrNotExist) {
			return m, raw, packed
		}
	}
	return m, raw, err
}

// readManifestAt is readManifest for a manifest that lies elsewhere.
func readManifestAt(at, path string) (m Manifest, raw []byte, err error) {
	f, _, err := open(at, path)
	if err != nil {
		return m, nil, err
	}
	defer f.Close()
	return parseManifestFrom(f, path)
}

// parseManifestFrom reads the manifest of path.
func parseManifestFrom(r io.Reader, path string) (m Manifest, raw []byte, err error) {
	raw, err = io.ReadAll(io.LimitReader(r, maxManifestBytes+1))
	if err != nil {
		return m, nil, err
	}
	m, err = parseManifest(raw)
	if err == nil && m.Name != filepath.Base(path) {
		err = fmt.Errorf("the manifest is about %q: one of the two files was renamed or copied", m.Name)
	}
	if err != nil {
		return Manifest{}, raw, damaged(path, err.Error())
	}
	return m, raw, nil
}
