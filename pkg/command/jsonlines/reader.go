package jsonlines

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// maxLineBytes bounds a line of standard input.
const maxLineBytes = 16 << 20

// ErrLong is a fault of a line; the lines after it can be read.
var ErrLong = fmt.Errorf("the line is longer than the limit of %d bytes", maxLineBytes)

// interruptible reads a file until a context ends.
type interruptible struct {
	ctx    context.Context
	input  io.Reader
	buffer []byte
}

// Read leaves a blocked read behind when the context ends: nothing else ends
// one, and the process is about to. Until then one read follows the other, so
// that the buffer is theirs alone.
func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.buffer) < len(p) {
		r.buffer = make([]byte, len(p))
	}
	buffer, n := r.buffer[:len(p)], 0
	read := make(chan error, 1)
	go func() {
		var err error
		n, err = r.input.Read(buffer)
		read <- err
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case err := <-read:
		return copy(p, buffer[:n]), err
	}
}

// Reader is standard input, read line by line.
type Reader struct {
	ctx    context.Context
	reader *bufio.Reader
	Number int // of the line that was read last, from 1
}

// NewReader reads lines until there are no more or the context ends, also
// while it waits for one.
func NewReader(ctx context.Context, input io.Reader) *Reader {
	return &Reader{ctx: ctx, reader: bufio.NewReaderSize(&interruptible{ctx: ctx, input: input}, 1<<16)}
}

// Line returns the next line without its end, which may be CRLF, and without
// a byte order mark at the beginning of the input. After the last one it
// returns io.EOF. Of a line that is too long it returns the beginning and
// ErrLong.
func (in *Reader) Line() ([]byte, error) {
	err := in.ctx.Err()
	var line []byte
	if err == nil {
		line, err = readLine(in.reader)
	}
	if err != nil && !errors.Is(err, ErrLong) {
		if err == io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if in.Number++; in.Number == 1 {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	return bytes.TrimSuffix(line, []byte("\r")), err
}

// Next is Line but for blank ones.
func (in *Reader) Next() ([]byte, error) {
	for {
		line, err := in.Line()
		if err != nil || len(bytes.TrimSpace(line)) > 0 {
			return line, err
		}
	}
}

// waits reports whether nothing of the next line is there yet.
func (in *Reader) waits() bool { return in.reader.Buffered() == 0 }

// Place names the line that was read last.
func (in *Reader) Place() string { return fmt.Sprintf("standard input, line %d", in.Number) }

// Fault is an error in the line that was read last.
func (in *Reader) Fault(err error) error { return FaultAt(in.Place(), err) }

// FaultAt says where an error is. It is one of the data, unless it has a kind
// of its own.
func FaultAt(place string, err error) error {
	if exitcode.Code(err) == exitcode.Failed {
		return exitcode.Dataf("%s: %w", place, err)
	}
	return fmt.Errorf("%s: %w", place, err)
}

// readLine reads one line. Of a line that is too long it returns the
// beginning and ErrLong, and skips the rest.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, more, err := r.ReadLine()
		if err == io.EOF && line != nil { // the last line filled the buffer
			return line, nil
		}
		if err != nil {
			return nil, err
		}
		if len(line)+len(part) <= maxLineBytes {
			line = append(line, part...)
		} else {
			for more && err == nil {
				_, more, err = r.ReadLine()
			}
			return line, ErrLong
		}
		if !more {
			return line, nil
		}
	}
}
