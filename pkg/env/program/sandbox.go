package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// launcher starts programs.
type launcher struct {
	settings Program
	folder   string // where they run, an absolute path
	said     *child.Lines
}

// saidBytes is how much of what programs say of themselves is logged.
const saidBytes = 256 << 10

func newLauncher(settings Program, folder string) *launcher {
	if absolute, err := filepath.Abs(folder); err == nil { // else it is not known where we are, and the program is not found
		folder = absolute
	}
	return &launcher{settings, folder, &child.Lines{Bytes: saidBytes}}
}

// launch starts the program.
func (l *launcher) launch() (*stdio.Process, error) {
	if l.settings.Sandbox != nil {
		return stdio.Program{Name: l.settings.Command[0], Start: l.sandboxed}.Open()
	}
	return stdio.Command(l.settings.Command, l.folder, child.Environment(l.settings.PassEnvironment...), l.said).Open()
}

// sandboxed starts the program in a sandbox.
func (l *launcher) sandboxed(in, out *os.File) (stdio.Running, error) {
	gone := make(chan struct{})
	program, remove, err := l.sandbox()
	if err != nil {
		return stdio.Running{}, errors.Join(err, in.Close(), out.Close())
	}
	program.Stdin, program.Stdout, program.Stderr = in, out, l.said
	ctx, cancel := context.WithCancel(context.Background())
	var result sandbox.Result
	go func() {
		defer close(gone)
		result, err = sandbox.Run(ctx, program)
		_ = in.Close() // what copied from and to them has ended with the program
		_ = out.Close()
		err = errors.Join(err, remove())
	}()
	how := func() (string, string) {
		switch said := strings.ToValidUTF8(result.Stderr.String(), "\uFFFD"); {
		case err != nil:
			return err.Error(), said
		case result.End == sandbox.Exited:
			return fmt.Sprintf("exit code %d", result.ExitCode), said
		case result.End == sandbox.Killed:
			return result.Signal.String(), said
		default:
			return "ended for " + string(result.End), said
		}
	}
	return stdio.Running{Kill: cancel, Gone: gone, How: how}, nil
}

// sandbox is the program with what it is granted, and what removes its folder.
func (l *launcher) sandbox() (p sandbox.Program, remove func() error, err error) {
	settings := l.settings.Sandbox
	read, err := config.ResolvePaths(settings.Read, l.folder)
	if err != nil {
		return p, nil, fmt.Errorf("env.program.sandbox.read: %w", err)
	}
	args := append([]string{}, l.settings.Command...)
	if args[0], err = l.executable(); err != nil {
		return p, nil, err
	}
	read = append(read, l.folder, filepath.Dir(args[0]))
	for _, word := range args[1:] { // a file that the command names may be anywhere
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.folder, path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			read = append(read, filepath.Dir(path))
		}
	}
	work, err := sandbox.NewWorkFolder("program")
	if err != nil {
		return p, nil, err
	}
	scratch := work.Path
	return sandbox.Program{
		Args: args, Dir: l.folder, Read: read, Write: []string{scratch}, Require: settings.Require,
		Env:    append(child.Environment(l.settings.PassEnvironment...), "HOME="+scratch, "TMPDIR="+scratch, "PYTHONDONTWRITEBYTECODE=1"),
		Limits: sandbox.Limits{Memory: int64(settings.MemoryMB) << 20, Output: stdio.StderrTail},
	}, work.Remove, nil
}

// executable is the path of the command's first word.
func (l *launcher) executable() (string, error) {
	path := l.settings.Command[0]
	if strings.ContainsRune(path, filepath.Separator) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.folder, path)
		}
		return path, nil
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}
