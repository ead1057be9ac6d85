package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestPlaces: which control groups a process is in, of both versions.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const (
		v1 = "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n" +
			"31 25 0:27 / /sys/fs/cgroup/cpu,pids rw,nosuid - cgroup cgroup rw,cpu,pids\n" +
			"32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		v2        = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		container = "30 25 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	)
	for _, c := range []struct {
		what, controller, own, mounts string
		want                          []place
	}{
		{"v1", "memory", "4:memory:/slurm/uid_1/job_2\n0::/x\n", v1, []place{{"/sys/fs/cgroup/memory/slurm/uid_1/job_2", false, false}, {"/sys/fs/cgroup/unified/x", false, true}}},
		{"v1 with two controllers", "pids", "4:cpu,pids:/\n", v1, []place{{"/sys/fs/cgroup/cpu,pids", true, false}}},
		{"v2", "memory", "0::/user.slice/app\n", v2, []place{{"/sys/fs/cgroup/user.slice/app", false, true}}},
		{"v2 of a container", "pids", "0::/docker/1/a\n", container, []place{{"/sys/fs/cgroup/a", false, true}}},
		{"v2 of a container's all", "pids", "0::/docker/1\n", container, []place{{"/sys/fs/cgroup", true, true}}},
		{"outside of what is mounted", "pids", "0::/other\n", container, nil},
		{"none", "memory", "", v2, nil},
		{"nonsense", "memory", "x\n::\n", "y\n- -\n", nil},
	} {
		if got := places(c.controller, c.own, c.mounts); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestGroup: a group is made where it may be, with its bounds, by plain files in the
// place of the kernel's, and not where the controller is missing.
func TestGroup(t *testing.T) {
	t.Parallel()
	g := group{name: "lathe-1"}
	top := t.TempDir()
	const nobody = 1 << 30 // above all process ids
	fatal(t, os.Mkdir(filepath.Join(top, fmt.Sprintf("lathe-%d-1", nobody)), 0o700))
	sweep(top)
	if g.make(place{top, true, true}, "memory", 1<<20) || len(g.folders) > 0 || g.memoryBy() != "polling" || g.end() != "" {
		t.Error("a group without a controller bounds memory")
	}
	if left, err := os.ReadDir(top); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for _, c := range []struct {
		second            bool
		file, want, by    string
		events, eventFile string
	}{
		{true, "memory.max", "34603008", "cgroup v2", "low 0\noom_kill 1\n", "memory.events"}, // 1 MiB and the 32 MiB that are ours
		{false, "memory.limit_in_bytes", "34603008", "cgroup v1", "under_oom 0\noom_kill 2\n", "memory.oom_control"},
	} {
		dir := t.TempDir()
		for _, name := range []string{c.file, "pids.max", "cgroup.procs"} {
			fatal(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		fatal(t, limit(dir, "memory", 1<<20, c.second))
		fatal(t, limit(dir, "pids", 10, c.second))
		g := &group{folders: []string{dir}, memory: dir, second: c.second}
		fatal(t, g.add(17))
		for name, want := range map[string]string{c.file: c.want, "pids.max": "42", "cgroup.procs": "17"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("%s is %q, %v, want %s", name, got, err, want)
			}
		}
		if g.end() != "" {
			t.Error("nothing has happened, and it ends over memory")
		}
		fatal(t, os.WriteFile(filepath.Join(dir, c.eventFile), []byte(c.events), 0o600))
		if g.end() != OverMemory || g.memoryBy() != c.by {
			t.Errorf("of %q it ends by %q, by %s", c.events, g.end(), g.memoryBy())
		}
	}
}
