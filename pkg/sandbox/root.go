package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// ownFolders are not taken from a root: what is there is the program's own, or the host's.
var ownFolders = []string{"/proc", "/sys", "/dev", "/tmp", otherTemporary}

// identityFiles are the host's in a root that has them too: they name this user.
var identityFiles = []string{"/etc/passwd", "/etc/group"}

// driverFolder holds the driver's libraries in a root: they must be those of the host's
// kernel, and no image has them.
const driverFolder = "/.nvidia"

// driverLibraries are the libraries of NVIDIA's driver that CUDA programs load.
var driverLibraries = []string{"libcuda.so*", "libnvidia-ml.so*", "libnvidia-ptxjitcompiler.so*", "libnvidia-nvvm*.so*", "libnvidia-gpucomp.so*"}

// libraryFolders are where a driver's libraries are installed.
var libraryFolders = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/usr/local/nvidia/lib64"}

// rooted is what a program sees of its root: paths in it, each whole. A folder in which
// something is granted is not among them, but what else is in it.
func (p *Program) rooted() ([]string, error) {
	taken := slices.Concat(ownFolders, p.Read, p.Write)
	var paths []string
	var list func(folder string) error
	list = func(folder string) error {
		entries, err := os.ReadDir(filepath.Join(p.Root, folder))
		if err != nil {
			return exitcode.Unavailablef("the root of a program: %w", err)
		}
		for _, entry := range entries {
			path := filepath.Join(folder, entry.Name())
			inside := slices.ContainsFunc(taken, func(other string) bool { return beneath(other, path) })
			switch kind := entry.Type(); {
			case slices.ContainsFunc(taken, func(other string) bool { return beneath(path, other) }):
			case !inside && (kind.IsDir() || kind.IsRegular() || kind&os.ModeSymlink != 0):
				paths = append(paths, path)
			case inside && kind.IsDir():
				if err := list(path); err != nil {
					return err
				}
			} // what is granted takes the place of a file or a link, and devices are left out
		}
		return nil
	}
	return paths, list("/")
}

// checkRoot refuses a root that a host cannot give.
func (p *Program) checkRoot(protection Protection) error {
	if p.Root == "" {
		return nil
	}
	if !filepath.IsAbs(p.Root) {
		return exitcode.Usagef("the sandbox has the root %q, want an absolute path", p.Root)
	}
	if !protection.namespace("mount") {
		return exitcode.Unavailablef("a program with a root of its own needs a mount namespace, which this host does not provide: it has %s", protection)
	}
	return nil
}

// readable are the rules of what is shown of the system or of the program's own root.
// Where links lead has rules of its own.
func (p *Program) readable(shown []string) []rule {
	var rules []rule
	if p.Root != "" {
		rules = append(rules, rule{driverFolder, readFolder, true})
		for _, path := range system.folders {
			if beneath(path, "/sys") {
				rules = append(rules, rule{path, readFolder, true})
			}
		}
	}
	look := os.Stat
	if p.Root != "" {
		look = os.Lstat
	}
	for _, path := range shown {
		info, err := look(filepath.Join(p.Root, path))
		switch {
		case err != nil || info.Mode()&os.ModeSymlink != 0:
		case info.Mode().IsRegular():
			rules = append(rules, rule{path, readFile, true})
		default:
			rules = append(rules, rule{path, readFolder, true})
		}
	}
	return rules
}

// root shows a program its root in the place of the system's own files.
func (v *viewer) root(root string, paths []string) {
	for _, path := range paths {
		source := filepath.Join(root, path)
		if to, err := os.Readlink(source); err == nil {
			v.folder(filepath.Dir(path))
			v.steps = append(v.steps, step{Do: "link", Source: to, Target: newRoot + path})
			continue
		}
		v.bind(source, path, readOnly)
	}
	for _, path := range identityFiles {
		if info, err := os.Lstat(filepath.Join(root, path)); err == nil && info.Mode().IsRegular() {
			v.bind(path, path, readOnly)
		}
	}
	for _, path := range system.folders {
		if beneath(path, "/sys") {
			v.system(path)
		}
	}
}

// driver lists the libraries of the host's driver for a program with a root that is
// granted GPUs, and the variable by which they are found.
func (p *Program) driver() (libraries, environ []string) {
	if p.Root == "" || len(p.GPUs) == 0 {
		return nil, nil
	}
	for _, folder := range libraryFolders {
		for _, pattern := range driverLibraries {
			found, _ := filepath.Glob(p.devices + filepath.Join(folder, pattern)) // the patterns are right
			for _, path := range found {
				if !slices.ContainsFunc(libraries, func(have string) bool { return filepath.Base(have) == filepath.Base(path) }) {
					libraries = append(libraries, path)
				}
			}
		}
	}
	path := driverFolder
	if own := variable(p.Env, "LD_LIBRARY_PATH"); own != "" {
		path += ":" + own
	}
	return libraries, []string{fmt.Sprintf("LD_LIBRARY_PATH=%s", path)}
}
