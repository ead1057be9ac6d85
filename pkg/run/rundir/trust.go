package rundir

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// TrustVariable in the environment of a process says that whoever started it
// trusts the folder of its run. The tasks and gates of a run that was started
// with --trust have it.
const TrustVariable = "LATHE_TRUST"

// umaskVariable is the umask of every binary, by which a user lets a group write runs
// (pkg/command/cmdline). One that leaves the group its right to write says that the user
// trusts the group with what is theirs.
const umaskVariable = "LATHE_UMASK"

func trustsGroup() bool {
	mask, err := strconv.ParseUint(os.Getenv(umaskVariable), 8, 9)
	return err == nil && mask&0o020 == 0
}

// Trusted refuses to start what a run names, with the rights of this user, if
// another user could have written it: the programs of its recipe, and the lines
// of its site profile. It looks at the folder, at what the run was made from and
// at more files, which need not be there.
func Trusted(d graph.Dir, more ...string) error {
	if os.Getenv(TrustVariable) != "" {
		return nil
	}
	extensions, err := filepath.Glob(d.Join("recipe.*.yaml"))
	if err != nil {
		return exitcode.Dataf("listing the recipes of %q: %w", d, err)
	}
	for _, path := range slices.Concat(extensions, []string{string(d), d.Identity(), d.Recipe(), d.Tasks(), d.Jobs()}, more) {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return exitcode.Dataf("finding out who may write %q: %w", path, err)
		}
		if who := otherWriter(info); who != "" {
			return exitcode.WithHint(exitcode.Usagef("%q %s, who could have this run start any program with your rights", path, who),
				"if you trust them, add --trust, or for all that you own LATHE_UMASK=007; else take the right away (chmod go-w), or copy the run: cp -r %s NEW", d)
		}
	}
	return nil
}

// otherWriter says who else than this user may write a file; empty for nobody.
func otherWriter(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "has an owner that this system does not tell"
	}
	mode := info.Mode().Perm()
	sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0 // in such a folder nobody replaces what others own
	switch {
	case stat.Uid != uint32(os.Geteuid()) && stat.Uid != 0:
		return "belongs to user " + userName(stat.Uid)
	case mode&0o002 != 0 && !sticky:
		return "may be written by every user"
	case mode&0o020 != 0 && !sticky && !privateGroup(stat.Gid) && !trustsGroup():
		return "may be written by group " + groupName(stat.Gid)
	}
	return ""
}

// privateGroup reports whether a group is this user's own, as many systems give
// one to each user: it has the user's name and is the user's first.
func privateGroup(gid uint32) bool {
	me, err := user.Current()
	if err != nil || me.Gid != strconv.Itoa(int(gid)) {
		return false
	}
	return filepath.Base(groupName(gid)) == me.Username
}

func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		return u.Username
	}
	return strconv.Itoa(int(uid))
}

func groupName(gid uint32) string {
	if g, err := user.LookupGroupId(strconv.Itoa(int(gid))); err == nil {
		return g.Name
	}
	return strconv.Itoa(int(gid))
}
