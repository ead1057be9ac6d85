package monitor

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The numbers of proc_pid_stat(5): fields 14 to 17 in hundredths of a second, 22 the
// start, 24 in pages. The command may hold anything.
func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "4711 (a) b (c) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 18446744073709551615 1"
	p, ok := parseStat([]byte(line))
	want := process{cpuSeconds: 3, residentBytes: 256 * float64(os.Getpagesize()), startedTicks: 98765}
	if !ok || p != want {
		t.Errorf("%+v, %v; want %+v", p, ok, want)
	}
	for _, bad := range []string{"", "4711 (a", "1 (a) S 1", "1 (a) Z 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 1"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

// proc_pid_statm(5) counts pages: the whole, what is resident, and of that what a file
// or shared memory has too.
func TestOwnBytes(t *testing.T) {
	t.Parallel()
	if got, ok := ownBytes([]byte("5000 700 300 10 0 900 0\n")); !ok || got != 400*float64(os.Getpagesize()) {
		t.Errorf("%v, %v", got, ok)
	}
	for _, bad := range []string{"", "1 2", "1 x 3", "1 2 x"} {
		if _, ok := ownBytes([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) S 1 4711 4711 0 -1 4194560 100 200 0 0 150 50 25 75 20 0 4 0 98765 1000000 256 1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		parseStat(content)
		ownBytes(content)
		parseHostStat(content)
		stallSeconds(content)
		keyedNumber(content, "oom_kill")
		cgroupOf(string(content), string(content))
	})
}

// Control groups of both versions, alone and together, in a container and outside:
// lines of proc_pid_mountinfo(5) and proc_pid_cgroup(5).
func TestCgroupOf(t *testing.T) {
	t.Parallel()
	const (
		v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1 = "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	)
	for name, c := range map[string]struct {
		mounts, membership string
		unified            string
		legacy             map[string]string
	}{
		"version 2":    {v2, "0::/system.slice/slurmstepd.scope/job_7/step_batch\n", "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_batch", map[string]string{}},
		"the root":     {v2, "0::/\n", "", map[string]string{}},
		"version 1":    {v1, "5:memory:/slurm/uid_0/job_7\n4:cpu,cpuacct:/slurm/uid_0/job_7\n", "", map[string]string{"memory": "/sys/fs/cgroup/memory/slurm/uid_0/job_7", "cpu": "/sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_7", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_7"}},
		"a container":  {"30 24 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/abc/inner\n", "/sys/fs/cgroup/inner", map[string]string{}},
		"a space":      {"30 24 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n", "0::/a\n", "/sys/fs/c group/a", map[string]string{}},
		"nothing":      {"", "", "", map[string]string{}},
		"both, hybrid": {v1 + v2, "5:memory:/a\n0::/b\n", "/sys/fs/cgroup/b", map[string]string{"memory": "/sys/fs/cgroup/memory/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := cgroupOf(c.mounts, c.membership)
			if g.unified != c.unified || !maps.Equal(g.legacy, c.legacy) {
				t.Errorf("%+v, want %q and %v", g, c.unified, c.legacy)
			}
		})
	}
}

// files makes files of a folder.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range contents {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// The numbers of control groups of either version are the same ones; what has no
// file has no number.
func TestCgroupNumbers(t *testing.T) {
	t.Parallel()
	unified := files(t, map[string]string{
		"job/cpu.stat": "usage_usec 2500000\nuser_usec 1\n", "job/memory.current": "1048576\n", "job/memory.events": "low 0\noom 3\noom_kill 2\n",
		"job/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=5\n", "job/cpu.max": "150000 100000\n",
		"job/memory.max": "max\n", "memory.max": "4194304\n",
	})
	legacy := files(t, map[string]string{
		"job/cpuacct.usage": "2500000000\n", "job/memory.usage_in_bytes": "1048576\n", "job/memory.oom_control": "oom_kill_disable 0\noom_kill 2\n",
		"job/cpu.cfs_quota_us": "150000\n", "job/cpu.cfs_period_us": "100000\n", "job/memory.limit_in_bytes": "9223372036854771712\n", "memory.limit_in_bytes": "4194304\n",
	})
	common := map[string]float64{CgroupCPUSeconds: 2.5, CgroupMemoryBytes: 1 << 20, CgroupOOMKills: 2}
	withPressure := maps.Clone(common)
	withPressure[CPUStallSeconds] = 1.5
	job := filepath.Join(legacy, "job")
	for name, c := range map[string]struct {
		group cgroup
		want  map[string]float64
	}{
		"version 2": {cgroup{unified: filepath.Join(unified, "job")}, withPressure},
		"version 1": {cgroup{legacy: map[string]string{"cpu": job, "cpuacct": job, "memory": job}}, common},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]float64{}
			c.group.numbers(func(name string, value float64) { got[name] = value })
			if !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if cores, ok := c.group.cores(); !ok || cores != 1.5 {
				t.Errorf("%v cores, %v", cores, ok)
			}
			if limit, ok := c.group.memoryLimit(); !ok || limit != 4<<20 {
				t.Errorf("the memory is bounded by %v, %v", limit, ok)
			}
		})
	}
	got := map[string]float64{}
	cgroup{}.numbers(func(name string, value float64) { got[name] = value })
	if _, ok := (cgroup{}).memoryLimit(); ok || len(got) != 0 {
		t.Errorf("no group has %v", got)
	}
}

// A process and what it starts is measured, and not this one: by the clock, a busy
// loop of a child is as many seconds as it took.
func TestHostMeasuresATask(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sh -c 'while :; do :; done' & read line; kill $!")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	alive := Watch(cmd.Process.Pid)
	h := NewHost(cmd.Process.Pid, 0)
	var got map[string]float64
	read := func() {
		got = map[string]float64{}
		h.Read(time.Time{}, func(r Reading) { got[r.Name] = r.Value })
	}
	for start := time.Now(); got[CPUSeconds] < 0.3 && time.Since(start) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		read()
	}
	if got[CPUSeconds] < 0.3 || got[Processes] < 2 || got[MemoryBytes] <= 0 || got[Cores] < 1 {
		t.Errorf("a busy task has %v", got)
	}
	if !alive() {
		t.Error("it is not alive")
	}
	input.Close()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	used := got[CPUSeconds]
	h.task.age = 0 // look again
	read()
	if _, there := got[CPUSeconds]; there || alive() {
		t.Errorf("a task that has ended after %v s has %v", used, got)
	}
	if got[Fault] != 1 {
		t.Error("that the task has ended is not said")
	}
}

// A process descends from itself and from those that have started it.
func TestDescends(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	self, its := os.Getpid(), child.Process.Pid
	for _, c := range []struct {
		pid, from int
		want      bool
	}{{self, self, true}, {its, self, true}, {its, os.Getppid(), true}, {self, its, false}, {its, 0, false}, {0, 0, false}, {1 << 30, self, false}} {
		if got := Descends(c.pid, c.from); got != c.want {
			t.Errorf("%d descends from %d: %v", c.pid, c.from, got)
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
}

// The whole host, by lines of proc_stat(5) and proc_meminfo(5).
func TestHostLines(t *testing.T) {
	t.Parallel()
	busy, cores, ok := parseHostStat([]byte("cpu  100 200 300 4000 50 60 70 80 9 9\ncpu0 50 100 150 2000 25 30 35 40 0 0\ncpu1 50 100 150 2000 25 30 35 40 0 0\nintr 1 2\n"))
	if busy != 8.1 || cores != 2 || !ok {
		t.Errorf("%v s on %d cores, %v", busy, cores, ok)
	}
	if total, ok := keyedNumber([]byte("MemTotal:  16 kB\nMemFree: 1 kB\n"), "MemTotal:"); total != 16 || !ok {
		t.Errorf("%v bytes, %v", total, ok)
	}
}

// What CUDA and Slurm say of devices.
func TestDevicesGiven(t *testing.T) {
	t.Parallel()
	index := func(i int) Token { return Token{Index: i, GPUInstance: -1, ComputeInstance: -1} }
	uuid := func(s string) Token { return Token{Index: -1, UUID: s, GPUInstance: -1, ComputeInstance: -1} }
	for name, c := range map[string]struct {
		env  map[string]string
		want []Token
		all  bool
	}{
		"nothing":       {nil, nil, true},
		"CUDA":          {map[string]string{"CUDA_VISIBLE_DEVICES": "0, 2", "SLURM_JOB_GPUS": "5"}, []Token{index(0), index(2)}, false},
		"none":          {map[string]string{"CUDA_VISIBLE_DEVICES": ""}, nil, false},
		"NoDevFiles":    {map[string]string{"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, nil, false},
		"UUID":          {map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c"}, []Token{uuid("GPU-8932f937-d72c")}, false},
		"MIG":           {map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-a-b"}, []Token{uuid("MIG-a-b")}, false},
		"MIG, old":      {map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-GPU-a/1/0"}, []Token{{Index: -1, UUID: "GPU-a", GPUInstance: 1, ComputeInstance: 0}}, false},
		"Slurm":         {map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1,4-6"}, []Token{index(1), index(4), index(5), index(6)}, false},
		"Slurm's step":  {map[string]string{"SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "gpu:a100:1"}, []Token{index(1)}, false},
		"Slurm, no GPU": {map[string]string{"SLURM_JOB_ID": "7"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := DevicesGiven(func(name string) (string, bool) {
				value, set := c.env[name]
				return value, set
			})
			if !slices.Equal(got.Tokens, c.want) || got.All != c.all {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func FuzzDevicesGiven(f *testing.F) {
	for _, seed := range []string{"0,1", "GPU-a", "MIG-GPU-a/1/0", "0-9999999999", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, name := range []string{"CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS"} {
			for _, token := range DevicesGiven(func(asked string) (string, bool) { return value, asked == name }).Tokens {
				if (token.Index < 0) == (token.UUID == "") {
					t.Errorf("%q has %+v", value, token)
				}
			}
		}
	})
}
