package child

import (
	"strings"
	"sync"
)

// Tail keeps the end of what is written to it, of at most Bytes bytes: what a program
// says of itself, to be shown when it fails. Many may write at a time.
type Tail struct {
	Bytes int

	mutex sync.Mutex
	kept  []byte
}

func (t *Tail) Write(b []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - t.Bytes; over > 0 {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	return len(b), nil
}

// String is what is kept, as valid UTF-8.
func (t *Tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
