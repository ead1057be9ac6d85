package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// LookHere reports what runs on this machine alone need: its processor and memory,
// the binaries, and the folder that runs are to lie in.
func LookHere(ctx context.Context, r *Report, folder, binaries string) {
	LookAtHost(ctx, binaries).reportOn(r)
	LookAtEnvironment(r)
	missing := ""
	for _, name := range []string{"lathe-rollout", "lathe-score", "lathe-buffer", "lathe-learn"} {
		if info, err := os.Stat(filepath.Join(binaries, name)); err != nil || !info.Mode().IsRegular() {
			missing += " " + name
		}
	}
	if missing != "" {
		r.add("binaries", Problem, "missing:"+missing, fmt.Sprintf("the folder %q; build them with make build", binaries))
	} else {
		r.add("binaries", OK, "all of them", fmt.Sprintf("the folder %q", binaries))
	}
	LookAtFolder(ctx, r, folder)
}
