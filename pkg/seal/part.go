package seal

import (
	"context"
	"fmt"
	"path/filepath"
)

// VerifyFiles is [Verify] of some files of a sealed folder: of all others the size
// alone is compared. wanted is asked for every name.
func VerifyFiles(ctx context.Context, path string, o Options, wanted func(name string) bool) (Manifest, error) {
	path = filepath.Clean(path)
	var m Manifest
	err := patiently(ctx, path, o, func() (err error) {
		if m, _, err = readManifest(path); err != nil {
			return err
		}
		if err = compareSizes(path, m); err != nil {
			return err
		}
		for _, f := range m.Files {
			if !wanted(f.Name) {
				continue
			}
			n, sum, err := sumFile(ctx, filepath.Join(path, filepath.FromSlash(f.Name)), path)
			if err != nil {
				return err
			}
			if n != f.Bytes || sum != f.SHA256 {
				return damaged(path, fmt.Sprintf("%s has %d bytes with sha256 %s, sealed were %d with %s", f.Name, n, sum, f.Bytes, f.SHA256))
			}
		}
		return o.accept(path, m)
	})
	return m, err
}
