package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// quotaRows are shapes that the programs print, and what they say in bytes and names.
var quotaRows = []struct {
	name, text string
	want       quota
	none       bool
}{
	{
		name: "lfs", text: "        /lustre7 982177580       0 1000000000       - 443208230       0       0       -\nuid 500 is using default file quota setting\n",
		want: quota{allowance{982177580 << 10, 0, 1000000000 << 10}, allowance{443208230, 0, 0}},
	},
	{
		name: "lfs, a long path that wraps, exceeded", text: "/lustre/scratch/project1\n                5300000* 5242880 6291456 6d23h59m59s   10001* 10000   20000 none\n",
		want: quota{allowance{5300000 << 10, 5242880 << 10, 6291456 << 10}, allowance{10001, 10000, 20000}},
	},
	{
		name: "lfs, servers that did not answer", text: "          /fred [1041408]*  5242880 6291456       -     [0]       0       0       -\n",
		want: quota{allowance{1041408 << 10, 5242880 << 10, 6291456 << 10}, allowance{0, 0, 0}},
	},
	{
		name: "lfs, an old one without graces, with its title", text: "Disk quotas for user bob (uid 500):\n     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace\n             ./    1840       0  1000000000              23       0       0      \n",
		want: quota{allowance{1840 << 10, 0, 1000000000 << 10}, allowance{23, 0, 0}},
	},
	{
		name: "quota", text: "Disk quotas for user bob (uid 1000): \n     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\nsrv:/export/home 95316* 90000  100000 1700000000 1234       0       0       0\n",
		want: quota{allowance{95316 << 10, 90000 << 10, 100000 << 10}, allowance{1234, 0, 0}},
	},
	{
		name: "a path that ends in a number", text: "/mnt/a 7 100 200 300 - 4 5 6 -\n",
		want: quota{allowance{100 << 10, 200 << 10, 300 << 10}, allowance{4, 5, 6}},
	},
	{name: "quota, none", text: "Disk quotas for user root (uid 0): none\n", none: true},
	{name: "human units", text: "        /lustre      0k      8T     10T       -       0  3000000 36000000       -\n", none: true},
	{name: "a row that is cut off", text: "/home 95316 90000 100000 0 1234\n", none: true},
	{name: "nothing", none: true},
}

func TestParseQuota(t *testing.T) {
	t.Parallel()
	for _, c := range quotaRows {
		if got, found := parseQuota(c.text); got != c.want || found == c.none {
			t.Errorf("%s: %+v, %v", c.name, got, found)
		}
	}
}

func FuzzParseQuota(f *testing.F) {
	for _, c := range quotaRows {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, _ := parseQuota(text)
		for _, a := range []allowance{q.bytes, q.names} {
			if a.used < 0 || a.soft < 0 || a.hard < 0 {
				t.Errorf("%q is read as %+v", text, q)
			}
		}
	})
}

func TestQuotaInWords(t *testing.T) {
	t.Parallel()
	const g = 1_000_000_000
	for _, c := range []struct {
		quota quota
		level Level
		want  string
	}{
		{quota{allowance{4 * g, 0, 0}, allowance{7, 0, 0}}, OK, "4.0 GB and 7 inodes used, no limit"},
		{quota{allowance{4 * g, 0, 100 * g}, allowance{7, 0, 0}}, OK, "4.0 GB of 100.0 GB and 7 inodes used"},
		{quota{allowance{95 * g, 100 * g, 900 * g}, allowance{7, 0, 10}}, Note, "95.0 GB of 100.0 GB and 7 inodes of 10 used"},
		{quota{allowance{4 * g, 100 * g, 0}, allowance{10, 0, 10}}, Note, "4.0 GB of 100.0 GB and 10 inodes of 10 used"},
	} {
		if level, got := c.quota.words(); level != c.level || got != c.want {
			t.Errorf("%+v: %s %q", c.quota, level, got)
		}
	}
}

// The programs are asked in their ways, and what they say or fail with is a finding
// and no failure. Alone: PATH is the environment's.
func TestLookAtQuota(t *testing.T) {
	programs, folder := t.TempDir(), t.TempDir()
	t.Setenv("PATH", programs)
	mount := mountOf(folder)
	lfs, quota := "lfs quota -q -u "+strconv.Itoa(os.Getuid())+" "+mount, "quota -w -p -f "+mount
	for _, c := range []struct{ kind, script, found, from string }{
		{"Lustre", "", "unknown the program lfs is not installed", "PATH"},
		{"ext4", "", "unknown the program quota is not installed", "PATH"},
		{"GPFS", "", "unknown GPFS reports quotas by its own program: mmlsquota", "statfs(2)"},
		{"Lustre", "echo /l 1 2000000000 0 - 1 0 0 -", "ok 0.0 GB of 2048.0 GB and 1 inodes used", lfs + "; a group or project quota may be lower"},
		{"NFS", "echo srv:/h '2000*' 1000 0 0 1 0 0 0; exit 1", "note 0.0 GB of 0.0 GB and 1 inodes used", quota + "; a group or project quota may be lower"},
		{"xfs", "echo 'Disk quotas for user bob (uid 1000): none'", "ok none", quota},
		{"ext4", "echo quota: Mountpoint '(or device)' / not found or has no quota enabled. >&2; exit 1", "ok none", quota},
		{
			"NFS", "echo quota: error while getting quota: Connection refused >&2; echo 'Disk quotas for user bob (uid 1000): none'; exit 1",
			"unknown the quota cannot be read: quota: error while getting quota: Connection refused", quota,
		},
		{"Lustre", "exit 2", "unknown the quota cannot be read: exit status 2", lfs},
	} {
		for _, name := range []string{"lfs", "quota"} {
			path := filepath.Join(programs, name)
			_ = os.Remove(path) // of the case before
			if c.script != "" {
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		var r Report
		lookAtQuota(t.Context(), &r, c.kind, folder)
		f := r.Findings[0]
		if got := string(f.Level) + " " + f.Found; len(r.Findings) != 1 || !strings.HasPrefix(got, c.found) || f.From != c.from {
			t.Errorf("%s, %q: %q from %q", c.kind, c.script, got, f.From)
		}
	}
}
