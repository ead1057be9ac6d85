package cmdline

import (
	"strconv"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// umaskVariable is the umask of this process and of what it starts, in octal: 007
// lets a group write a run that its members share.
const umaskVariable = "LATHE_UMASK"

// restrictModes takes from new files and folders what others have no need of:
// they are at most 0640 and 0750, and less where the umask says so. A mask that
// is given holds instead; it never lets everybody write.
func restrictModes(given string) error {
	const others, group = 0o007, 0o020
	if given != "" {
		mask, err := strconv.ParseUint(given, 8, 9)
		if err != nil || mask&0o002 == 0 {
			return exitcode.Usagef("%s: got %q, want an octal umask that denies write permission to others, such as 027 or 007", umaskVariable, given)
		}
		syscall.Umask(int(mask))
		return nil
	}
	was := syscall.Umask(others)
	syscall.Umask(was | others | group)
	return nil
}
