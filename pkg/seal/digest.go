package seal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// digest is the measure of a file or folder.
type digest struct {
	kind   Kind
	bytes  int64
	sha256 string
	files  []File // of a folder, sorted by name
}

// FolderDigest is the SHA-256 of a folder: of one line for each file, sorted
// bytewise by name, "SHA256 BYTES NAME\n" with NAME as a quoted Go string.
func FolderDigest(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d %s\n", f.SHA256, f.Bytes, strconv.Quote(f.Name))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ContentSHA256 digests what lies at a path, which need not be sealed, as a manifest's
// sha256: a file, or all files of a folder.
func ContentSHA256(ctx context.Context, path string) (string, error) {
	found, err := measure(ctx, path)
	return found.sha256, err
}

// digestBytes measures a file that has been read.
func digestBytes(data []byte) digest {
	sum := sha256.Sum256(data)
	return digest{kind: KindFile, bytes: int64(len(data)), sha256: hex.EncodeToString(sum[:])}
}

// measure digests what lies at path.
func measure(ctx context.Context, path string) (digest, error) {
	f, err := openContent(path, path)
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	if f.folder {
		return measureFolder(ctx, path, nil)
	}
	n, sum, err := sumReader(ctx, f)
	return digest{kind: KindFile, bytes: n, sha256: sum}, err
}

// during is a reader until a context is over: a large file takes minutes.
type during struct {
	ctx context.Context
	io.Reader
}

func (d during) Read(p []byte) (int, error) {
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	return d.Reader.Read(p)
}

func sumReader(ctx context.Context, r io.Reader) (int64, string, error) {
	h := sha256.New()
	n, err := io.Copy(h, during{ctx, r})
	return n, hex.EncodeToString(h.Sum(nil)), err
}

func sumFile(ctx context.Context, name, path string) (int64, string, error) {
	f, _, err := open(name, path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return sumReader(ctx, f)
}

// walkFiles visits every file below a folder. Names that begin with a dot are left
// out: file systems put their own there (.nfs0001, .snapshot).
func walkFiles(path string, visit func(name string, entry fs.DirEntry) error) error {
	root := path + string(filepath.Separator) // the folder itself may be a link to another disk
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == root:
			return err
		case strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		return visit(name, entry)
	})
}

// measureFolder digests every file below a folder, but for those whose digest is known,
// whose size is compared.
func measureFolder(ctx context.Context, path string, known map[string]File) (digest, error) {
	d := digest{kind: KindFolder}
	err := walkFiles(path, func(name string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() {
			return damaged(path, fmt.Sprintf("%q is neither a file nor a folder", name))
		}
		relative, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		f, sealed := known[filepath.ToSlash(relative)]
		if sealed {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if info.Size() != f.Bytes {
				return damaged(path, fmt.Sprintf("%s has %d bytes, sealed were %d", f.Name, info.Size(), f.Bytes))
			}
		} else {
			f.Name = filepath.ToSlash(relative)
			if f.Bytes, f.SHA256, err = sumFile(ctx, name, path); err != nil {
				return err
			}
		}
		d.files = append(d.files, f)
		d.bytes += f.Bytes
		return nil
	})
	if err != nil {
		return digest{}, err
	}
	slices.SortFunc(d.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	d.sha256 = FolderDigest(d.files)
	return d, nil
}

// compare says how a measured file or folder differs from its manifest;
// empty means that they agree.
func (d digest) compare(m Manifest) string {
	if d.kind != m.Kind {
		return fmt.Sprintf("found a %s, sealed was a %s", d.kind, m.Kind)
	}
	if d.kind == KindFolder {
		if difference := compareFiles(d.files, m.Files); difference != "" {
			return difference
		}
	}
	if d.bytes != m.Bytes {
		return fmt.Sprintf("found %d bytes, sealed were %d", d.bytes, m.Bytes)
	}
	if d.sha256 != m.SHA256 {
		return fmt.Sprintf("found %d bytes with sha256 %s, sealed was %s", d.bytes, d.sha256, m.SHA256)
	}
	return ""
}

// compareFiles names every file of a folder that differs.
func compareFiles(found, sealed []File) string {
	have := make(map[string]File, len(found))
	for _, f := range found {
		have[f.Name] = f
	}
	var problems []string
	for _, want := range sealed {
		got, ok := have[want.Name]
		delete(have, want.Name)
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s is missing", want.Name))
		case got.Bytes != want.Bytes:
			problems = append(problems, fmt.Sprintf("%s has %d bytes, sealed were %d", want.Name, got.Bytes, want.Bytes))
		case got.SHA256 != want.SHA256:
			problems = append(problems, fmt.Sprintf("%s has sha256 %s, sealed was %s", want.Name, got.SHA256, want.SHA256))
		}
	}
	for _, f := range found {
		if _, extra := have[f.Name]; extra {
			problems = append(problems, fmt.Sprintf("%s was not sealed with the folder", f.Name))
		}
	}
	return strings.Join(problems, "; ")
}
