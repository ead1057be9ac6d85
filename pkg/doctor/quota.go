package doctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// askPatience is the longest wait for a program that may hang with what it looks at.
const askPatience = 20 * time.Second

// ask runs a program, without the variables that are named, and returns what it said.
func ask(ctx context.Context, without []string, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaints, time.Second
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(entry string) bool {
		variable, _, _ := strings.Cut(entry, "=")
		return slices.Contains(without, variable)
	}), "LC_ALL=C") // its words are read
	err = cmd.Run()
	return out.String(), strings.TrimSpace(complaints.String()), err
}

// allowance is what a user has of something and may have; 0 is no bound.
type allowance struct{ used, soft, hard int64 }

// bound is the least that binds: the soft one does once its time of grace is over.
func (a allowance) bound() int64 {
	if a.soft > 0 {
		return a.soft
	}
	return a.hard
}

// quota is what a user may have on a file system.
type quota struct{ bytes, names allowance }

// quotaRow is a row of lfs quota or of quota: what is used, the soft bound, the hard
// one and the time of grace, in KiB, and the same for names. A number is marked where
// it is over its bound (*), and where some servers did not answer ([ ]). Old programs
// leave a grace out that has not begun. The path before it may have wrapped.
var quotaRow = func() *regexp.Regexp {
	const number, grace = `\[?([0-9]{1,15})\]?\*{0,2}`, `(?:[ \t]+\S+)?`
	three := strings.Join([]string{number, number, number}, `[ \t]+`) + grace
	return regexp.MustCompile(`(?m)(?:^|[ \t])` + three + `[ \t]+` + three + `[ \t]*$`)
}()

// parseQuota reads the first row of a quota.
func parseQuota(text string) (q quota, found bool) {
	match := quotaRow.FindStringSubmatch(text)
	if match == nil {
		return quota{}, false
	}
	var n [6]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(match[i+1], 10, 64) // 15 digits at most
	}
	kibibytes := func(n int64) int64 { return min(n, 1<<52) << 10 }
	return quota{allowance{kibibytes(n[0]), kibibytes(n[1]), kibibytes(n[2])}, allowance{n[3], n[4], n[5]}}, true
}

// ownQuotas are the programs of file systems that neither lfs nor quota know.
var ownQuotas = map[string]string{"GPFS": "mmlsquota", "BeeGFS": "beegfs-ctl --getquota", "Ceph": "getfattr -n ceph.quota.max_bytes", "ZFS": "zfs userspace"}

// lookAtQuota says what this user may have in a folder of a kind of file system. What
// cannot be told is no failure: the file system says so when it is full.
func lookAtQuota(ctx context.Context, r *Report, kind, folder string) {
	about := "folder " + folder + ", your quota"
	if program, own := ownQuotas[kind]; own {
		r.add(about, Unknown, kind+" reports quotas by its own program: "+program, "statfs(2)")
		return
	}
	command := []string{"quota", "-w", "-p", "-f"}
	if kind == "Lustre" {
		command = []string{"lfs", "quota", "-q", "-u", strconv.Itoa(os.Getuid())}
	}
	command = append(command, mountOf(folder)) // neither takes any folder, in all its versions
	from := strings.Join(command, " ")
	if _, err := exec.LookPath(command[0]); err != nil {
		r.add(about, Unknown, fmt.Sprintf("the program %s is not installed", command[0]), "PATH")
		return
	}
	out, complaints, err := ask(ctx, nil, command[0], command[1:]...)
	q, found := parseQuota(out) // also after a failure: quota fails where one is exceeded
	switch {
	case found:
		level, words := q.words()
		r.add(about, level, words, from+"; a group or project quota may be lower")
	case strings.Contains(complaints, "no quota enabled"), complaints == "" && strings.HasSuffix(strings.TrimSpace(out), ": none"):
		r.add(about, OK, "none", from)
	default:
		if err != nil && complaints == "" {
			complaints = err.Error()
		}
		r.add(about, Unknown, "the quota cannot be read: "+cmp.Or(complaints+out, "none"), from)
	}
}

// words describes a quota; the level is Note if it is exceeded or almost exhausted.
func (q quota) words() (Level, string) {
	level := OK
	gigabytes := fmt.Sprintf("%.1f GB", float64(q.bytes.used)/1e9)
	if q.bytes.bound() > 0 {
		gigabytes += fmt.Sprintf(" of %.1f GB", float64(q.bytes.bound())/1e9)
		if q.bytes.bound()-q.bytes.used < littleFree {
			level = Note
		}
	}
	names := fmt.Sprintf("%d inodes", q.names.used)
	if q.names.bound() > 0 {
		names += fmt.Sprintf(" of %d", q.names.bound())
		if q.names.used >= q.names.bound() {
			level = Note
		}
	}
	used := gigabytes + " and " + names + " used"
	if q.bytes.bound() == 0 && q.names.bound() == 0 {
		used += ", no limit"
	}
	return level, used
}

// mountOf is the folder at which the file system of a folder begins.
func mountOf(folder string) string {
	path, err := filepath.Abs(folder)
	if err != nil {
		return folder
	}
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		path = whole
	}
	var here, above unix.Stat_t
	if unix.Stat(path, &here) != nil {
		return path
	}
	for path != "/" && unix.Stat(filepath.Dir(path), &above) == nil && above.Dev == here.Dev {
		path = filepath.Dir(path)
	}
	return path
}
