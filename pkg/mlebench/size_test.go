package mlebench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
)

// rowsVariable is how many rows TestManyRows grades; 3,000,000 is half of what the largest
// competition of MLE-bench has, and takes a minute.
const rowsVariable = "LATHE_TEST_ROWS"

// TestManyRows: submissions that are graded at the same time, 16 of them, take no more
// memory than the bound of all, beside themselves and the answers.
func TestManyRows(t *testing.T) {
	rows := 50_000
	if text := os.Getenv(rowsVariable); text != "" {
		rows = must.Get(strconv.Atoi(text))(t)
	}
	var b bytes.Buffer
	b.WriteString("id,value\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d_%d_%d,%.6f\n", i/100_000, i/300%1000, i%300, float64(i%97)/97)
	}
	competition, _ := grader.Lookup("denoising-dirty-documents")
	c := must.Get(OpenMLEBench(competition, b.Bytes(), Board{}))(t)
	content := b.Bytes()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop := make(chan struct{})
	var watch, all sync.WaitGroup
	watch.Go(func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	began := time.Now()
	for range 16 {
		all.Go(func() {
			if score, err := c.Score(content); err != nil || score != 0 {
				t.Errorf("score %v, %v; want an error of 0", score, err)
			}
		})
	}
	all.Wait()
	close(stop)
	watch.Wait()
	if most := before.HeapInuse + memoryAtOnce + memoryAtOnce/4; peak.Load() > most { // with what the collector has not freed
		t.Errorf("%d MB at most, want %d", peak.Load()>>20, most>>20)
	}
	t.Logf("%d rows, %d MB: 16 grades in %v; %d MB before, %d MB at most", rows, len(content)>>20, time.Since(began), before.HeapInuse>>20, peak.Load()>>20)
}

// TestHold: what is graded at the same time waits for memory, which is given back, and one
// that takes more than there is waits for all of it. Alone: it takes what others wait for.
func TestHold(t *testing.T) {
	small, large := hold([]byte("a,b\n1,2\n")), make(chan func())
	go func() { large <- hold(bytes.Repeat([]byte(",,,,,,,\n"), 3<<20)) }()
	select {
	case <-large:
		t.Error("one that takes all is graded beside another")
	case <-time.After(100 * time.Millisecond):
	}
	small()
	release := <-large
	if atOnce.TryAcquire(1) {
		t.Error("memory is left beside one that takes all")
	}
	release()
	if !atOnce.TryAcquire(memoryAtOnce) {
		t.Fatal("memory was not given back")
	}
	atOnce.Release(memoryAtOnce)
}
