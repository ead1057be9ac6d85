package doctor

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
)

// The engine's library is opened where there is GPU software, and what it finds is said.
func TestEngine(t *testing.T) {
	t.Parallel()
	with, without := Host{Driver: "550.54.15"}, Host{}
	found := func() (backend.GPU, error) {
		return backend.GPU{Name: "a GPU", MemoryBytes: 80 << 30, FreeBytes: 79 << 30, ComputeCapability: 90, Driver: 12040, Runtime: 11080}, nil
	}
	fails := func() (backend.GPU, error) {
		return backend.GPU{}, exitcode.WithHint(exitcode.Unavailablef("version `GLIBC_2.34' not found"), "build it on the oldest system")
	}
	for _, c := range []struct {
		host Host
		find func() (backend.GPU, error)
		want string // level and words; empty for nothing
	}{
		{without, found, ""},
		{with, found, "ok a GPU, compute capability 9.0, 79.0 of 80.0 GiB free, driver for CUDA 12.4, library of CUDA 11.8"},
		{with, fails, "note policy.backend cuda fails here, and auto takes the CPU: version `GLIBC_2.34' not found; build it on the oldest system"},
	} {
		h, r := c.host, &Report{}
		h.Engine = h.lookAtEngine(c.find)
		h.reportEngine(r, "node a")
		got := ""
		for _, f := range r.Findings {
			got += strings.ToLower(string(f.Level)) + " " + f.Found
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
