package seal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// A pack is one sealed file that holds the sealed shards of a folder: the bytes of each
// as they were sealed, its manifest behind it, and at the end what makes one table of
// them all. A shard that does not lie in its folder any more is read from the pack; no
// reader need know. Shards 0 to 999 share one pack, 1000 to 1999 the next, so the name of
// a shard tells its pack and the number of names in a folder falls by a thousand.

// Member is a sealed file in a pack. The bytes of its manifest follow its own.
type Member struct {
	Name          string `json:"name"` // base name that it had
	Offset        int64  `json:"offset"`
	Bytes         int64  `json:"bytes"`
	ManifestBytes int64  `json:"manifest_bytes"`
}

func (m Member) end() int64 { return m.Offset + m.Bytes + m.ManifestBytes }

// Shards are named by their number, and packs by their first and last shard.
const (
	shardDigits   = 5
	shardSuffix   = ".parquet"
	shardsPerPack = 1000
)

// PackOf is the pack of a shard, NNNNN.parquet, whether or not it is there. Nothing else
// is ever packed.
func PackOf(path string) (pack string, ok bool) {
	number, isTable := strings.CutSuffix(filepath.Base(path), shardSuffix)
	if !isTable || len(number) != shardDigits {
		return "", false
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return "", false
	}
	first := n - n%shardsPerPack
	name := fmt.Sprintf("%0*d-%0*d%s", shardDigits, first, shardDigits, first+shardsPerPack-1, shardSuffix)
	return filepath.Join(filepath.Dir(path), name), true
}

// IsPack reports whether a path is that of a pack.
func IsPack(path string) bool {
	first, _, _ := strings.Cut(filepath.Base(path), "-")
	pack, ok := PackOf(filepath.Join(filepath.Dir(path), first+shardSuffix))
	return ok && pack == filepath.Clean(path)
}

// checkMembers reports members that do not lie one behind the other, or beyond the file.
func checkMembers(members []Member, bytes int64) error {
	end, last := int64(0), ""
	for _, m := range members {
		if m.Name != filepath.Base(m.Name) || m.Name <= last || m.Offset != end || m.Bytes < 0 || m.ManifestBytes <= 0 || m.Bytes > bytes || m.ManifestBytes > bytes || m.end() > bytes {
			return fmt.Errorf("the manifest's member %q is out of range", m.Name)
		}
		end, last = m.end(), m.Name
	}
	return nil
}

// PackWriter writes a pack. A PackWriter is for one goroutine.
type PackWriter struct {
	w       *Writer
	members []Member
}

// CreatePack begins a pack. End with [PackWriter.Commit] or [PackWriter.Abort].
func CreatePack(pack string, a Attempt) (*PackWriter, error) {
	w, err := Create(pack, a)
	if err != nil {
		return nil, err
	}
	return &PackWriter{w: w}, nil
}

// Add appends a sealed file of the pack's folder, in the order of names. It returns its
// bytes, which were digested, its manifest, and the place of the first byte in the pack.
func (p *PackWriter) Add(ctx context.Context, path string) (data []byte, m Manifest, offset int64, err error) {
	if data, m, err = Open(ctx, path, Options{}); err != nil {
		return nil, m, 0, err
	}
	again, raw, err := readManifest(path)
	if err != nil {
		return nil, m, 0, err
	}
	if again.SHA256 != m.SHA256 {
		return nil, m, 0, exitcode.IOf("packing %q: it changed during packing", path)
	}
	offset = p.w.bytes
	p.members = append(p.members, Member{Name: filepath.Base(path), Offset: offset, Bytes: int64(len(data)), ManifestBytes: int64(len(raw))})
	for _, part := range [][]byte{data, raw} {
		if _, err := p.w.Write(part); err != nil {
			return nil, m, 0, err
		}
	}
	return data, m, offset, nil
}

// Commit ends the pack with tail and seals it. The files that it holds are still there:
// [RemovePacked] removes them.
func (p *PackWriter) Commit(tail []byte, m Manifest) (Manifest, error) {
	if _, err := p.w.Write(tail); err != nil {
		return Manifest{}, errors.Join(err, p.Abort())
	}
	m.Members = p.members
	return p.w.Commit(m)
}

// Abort drops the pack. It does nothing after Commit.
func (p *PackWriter) Abort() error { return p.w.Abort() }

// RemovePacked removes the files that a pack holds and that still lie beside it. Those
// that are not as they were packed stay, and are what readers get. A kill leaves files
// that RemovePacked removes when it is called again.
func RemovePacked(ctx context.Context, pack string) error {
	m, err := Read(ctx, pack, Options{})
	if err != nil {
		return err
	}
	f, err := os.Open(pack)
	if err != nil {
		return fmt.Errorf("reading %q: %w", pack, err)
	}
	defer f.Close()
	dir := filepath.Dir(pack)
	if err := plainfile.CheckLinks(dir); err != nil {
		return err
	}
	var bare []string // whose manifests are gone
	for _, member := range m.Members {
		path := filepath.Join(dir, member.Name)
		raw := make([]byte, member.ManifestBytes)
		if _, err := f.ReadAt(raw, member.Offset+member.Bytes); err != nil {
			return fmt.Errorf("reading %q: %w", pack, err)
		}
		there, err := os.ReadFile(ManifestPath(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("removing %q: %w", path, err)
		case string(there) != string(raw):
			continue
		default:
			if err := os.Remove(ManifestPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing %q: %w", path, err)
			}
		}
		bare = append(bare, path)
	}
	// Every manifest is gone for good before a file goes: no manifest is left alone.
	if err := syncFolder(dir); err != nil {
		return fmt.Errorf("removing what %q holds: %w", pack, err)
	}
	for _, path := range bare {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %q: %w", path, err)
		}
	}
	return nil
}

// Unpack puts the files of a pack back into its folder, each with the manifest that it
// had, and removes the pack. Files that are damaged are dropped and named; a file that
// lies there by itself is left as it is.
func Unpack(ctx context.Context, pack string, a Attempt) (dropped []string, err error) {
	pack = filepath.Clean(pack)
	m, _, err := readManifest(pack)
	if err != nil {
		return nil, fmt.Errorf("unpacking %q: %w", pack, err)
	}
	for _, member := range m.Members {
		path := filepath.Join(filepath.Dir(pack), member.Name)
		_, raw, err := readManifest(path)
		if err == nil {
			var data []byte
			if data, _, err = Open(ctx, path, Options{}); err == nil {
				err = errors.Join(putBytes(path, data, a), putBytes(ManifestPath(path), raw, a))
			}
		}
		switch {
		case errors.Is(err, ErrDamaged):
			dropped = append(dropped, member.Name)
		case err != nil:
			return dropped, fmt.Errorf("unpacking %q: %w", pack, err)
		}
	}
	if err := syncFolder(filepath.Dir(pack)); err != nil {
		return dropped, fmt.Errorf("unpacking %q: %w", pack, err)
	}
	return dropped, Remove(pack)
}

// putBytes makes a file of bytes, unless there is one.
func putBytes(path string, data []byte, a Attempt) error {
	t, err := newTempFile(path, a, data)
	if err != nil {
		return err
	}
	defer t.remove()
	_, err = t.put()
	return err
}

// pack is a pack that was opened before: its manifest is read and parsed once for all of
// its members, and its file stays open for them until the collector takes it.
type pack struct {
	info    fs.FileInfo // of the manifest that was read
	file    *os.File
	members map[string]Member
}

// packs are those opened last, by path.
var packs struct {
	sync.Mutex
	byPath map[string]*pack
}

// mostPacks bounds how many are kept: one has some 100 KB.
const mostPacks = 256

// openPack returns the pack at a path; [fs.ErrNotExist] when there is none.
func openPack(path string) (*pack, error) {
	f, info, err := open(ManifestPath(path), path) // which revalidates what NFS cached
	if err != nil {
		return nil, err
	}
	defer f.Close()
	packs.Lock()
	defer packs.Unlock()
	if p := packs.byPath[path]; p != nil && os.SameFile(p.info, info) && p.info.ModTime().Equal(info.ModTime()) && p.info.Size() == info.Size() {
		return p, nil
	}
	m, _, err := parseManifestFrom(f, path)
	if err != nil {
		return nil, err
	}
	p := &pack{info: info, members: make(map[string]Member, len(m.Members))}
	for _, member := range m.Members {
		p.members[member.Name] = member
	}
	if p.file, info, err = open(path, path); err != nil {
		return nil, err
	}
	if info.IsDir() || info.Size() != m.Bytes {
		p.file.Close()
		return nil, damaged(path, fmt.Sprintf("found %d bytes, sealed were %d", info.Size(), m.Bytes))
	}
	if packs.byPath == nil || len(packs.byPath) >= mostPacks {
		packs.byPath = map[string]*pack{}
	}
	packs.byPath[path] = p
	return p, nil
}

// openPacked opens the pack that holds a shard; [fs.ErrNotExist] when none does.
func openPacked(path string) (*os.File, Member, error) {
	in, ok := PackOf(path)
	if !ok {
		return nil, Member{}, fs.ErrNotExist
	}
	p, err := openPack(in)
	if err != nil {
		return nil, Member{}, err
	}
	member, ok := p.members[filepath.Base(path)]
	if !ok {
		return nil, Member{}, fs.ErrNotExist
	}
	return p.file, member, nil
}

// readPackedManifest is [readManifest] of a shard that lies in a pack.
func readPackedManifest(path string) (Manifest, []byte, error) {
	f, member, err := openPacked(path)
	if err != nil {
		return Manifest{}, nil, err
	}
	return parseManifestFrom(io.NewSectionReader(f, member.Offset+member.Bytes, member.ManifestBytes), path)
}

// content is what lies at a path: a folder, or the bytes of a file, by itself or in a
// pack.
type content struct {
	io.Reader
	file   *os.File // nil for that of a pack, which others read too
	size   int64
	folder bool
}

// Close closes the file.
func (c content) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// openContent opens a file or folder of what was sealed at path.
func openContent(name, path string) (content, error) {
	f, info, err := open(name, path)
	if err == nil {
		return content{Reader: f, file: f, size: info.Size(), folder: info.IsDir()}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return content{}, err
	}
	f, member, packed := openPacked(name)
	if packed != nil {
		if errors.Is(packed, fs.ErrNotExist) {
			packed = err // which names the file itself
		}
		return content{}, packed
	}
	return content{Reader: io.NewSectionReader(f, member.Offset, member.Bytes), size: member.Bytes}, nil
}

// Packed are the paths of the shards that a pack holds, in the order of their numbers.
func Packed(ctx context.Context, pack string) ([]string, error) {
	m, err := Read(ctx, pack, Options{})
	paths := make([]string, len(m.Members))
	for i, member := range m.Members {
		paths[i] = filepath.Join(filepath.Dir(pack), member.Name)
	}
	return paths, err
}
