package plainfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// What a clone without git-LFS has in the place of weights is reported as what
// it is, and a file that only begins so is not.
func TestGitLFSPointer(t *testing.T) {
	t.Parallel()
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	path := filepath.Join(t.TempDir(), "model.safetensors")
	for content, refused := range map[string]bool{
		pointer: true, pointer + strings.Repeat("x", 2000): false, "version 1": false, pointerStart: true, pointerStart[1:] + "x": false,
		pointerStart + strings.Repeat("x", 1023-len(pointerStart)): true, pointerStart + strings.Repeat("x", 1024-len(pointerStart)): false, // below 1024 bytes, by the specification
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path, MaxDocument)
		if refused != (err != nil) || refused && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "model.safetensors\": it is a git-LFS pointer")) {
			t.Errorf("%.20q of %d bytes: %v", content, len(content), err)
		}
	}
}
