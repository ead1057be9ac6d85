package sandbox

import (
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// standard are the standard files of a program, and a pipe
// that is closed to end it.
type standard struct {
	theirs, ours []*os.File
	copied       sync.WaitGroup
	input        io.Reader
	taken        [2]io.Writer // by whom output and error are taken beside their keepers; nil for nobody
	kept         [2]*keeper   // of output and error
	once         sync.Once
}

func newStandard(p *Program) (*standard, error) {
	s := &standard{input: p.Stdin, taken: [2]io.Writer{p.Stdout, p.Stderr}, kept: [2]*keeper{newKeeper(p.Limits.Output), newKeeper(p.Limits.Output)}}
	for i := range 4 { // input, output, error, end
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		if i == 1 || i == 2 {
			read, write = write, read
		}
		s.theirs, s.ours = append(s.theirs, read), append(s.ours, write)
	}
	return s, nil
}

// started copies what is read and written, once the program has its files.
func (s *standard) started() {
	for _, file := range s.theirs {
		file.Close()
	}
	go func() {
		if s.input != nil {
			_, _ = io.Copy(s.ours[0], s.input) // who does not read it has ended
		}
		s.ours[0].Close()
	}()
	for i, kept := range s.kept {
		s.copied.Go(func() {
			if s.taken[i] != nil {
				_, _ = io.Copy(io.MultiWriter(kept, s.taken[i]), s.ours[1+i]) // who does not take it gets no more
			}
			_, _ = io.Copy(kept, s.ours[1+i]) // a keeper takes all
		})
	}
}

// finish waits for the rest of what was written, and is what is kept of it.
func (s *standard) finish() (stdout, stderr Output) {
	s.copied.Wait()
	return s.kept[0].kept(), s.kept[1].kept()
}

// stop ends the program.
func (s *standard) stop() { s.once.Do(func() { s.ours[3].Close() }) }

func (s *standard) close() {
	s.stop()
	for _, file := range slices.Concat(s.theirs, s.ours) {
		file.Close()
	}
	s.copied.Wait()
}

// pair are two ends of a connection that keeps packets apart and carries files.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// sendFiles sends a packet with files.
func sendFiles(to *os.File, packet []byte, files []*os.File) error {
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	var errSend error
	if err := raw.Control(func(fd uintptr) {
		errSend = unix.Sendmsg(int(fd), packet, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	}); err != nil {
		return err
	}
	return errSend
}
