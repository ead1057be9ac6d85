package monitor

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lathe-rl/lathe/pkg/phase"
)

// Options say what a monitor does.
type Options struct {
	Every    time.Duration // between samples
	Samplers []Sampler
	Record   *Recorder
	Phases   *os.File        // the memory of the task's phases; nil where it shares none
	Alive    Alive           // says whether the task runs
	Ended    <-chan struct{} // closed when the task says that it ends; nil where it does not
	SealNow  <-chan os.Signal
	Log      func(format string, args ...any)
}

// How long a sampler may take before that is a fault of its own, and how long the
// last readings are waited for when the task has ended.
const (
	slowSampler = 10 * time.Second
	lastReading = time.Second
)

// Run samples until the task has ended, and seals what is left. A signal has it
// seal what there is, and go on: a batch system that warns a task may kill all of
// it at any moment from then on. Nothing that fails ends it.
func Run(o Options) {
	var reading sync.WaitGroup
	lines := make([]*line, len(o.Samplers))
	for i, s := range o.Samplers {
		lines[i] = &line{sampler: s, moments: make(chan moment), record: o.Record}
		reading.Go(lines[i].run)
	}
	seal := sealer(o)
	phases := spent{file: o.Phases}
	timer := time.NewTimer(0)
	defer timer.Stop()
loop:
	for {
		select {
		case <-o.Ended:
			break loop
		case <-o.SealNow:
			seal.ask()
		case <-timer.C:
			now := time.Now()
			during, readings := phases.since()
			o.Record.Add(now, during, readings)
			for _, l := range lines {
				l.offer(moment{now, during})
			}
			if !o.Alive() {
				break loop
			}
			if o.Record.Due(now) {
				seal.ask()
			}
			// On whole multiples of the interval, so that the samples of all hosts
			// and of all tasks of a host stand together.
			timer.Reset(time.Until(now.Truncate(o.Every).Add(o.Every)))
		}
	}
	now := time.Now()
	during, readings := phases.since()
	o.Record.Add(now, during, readings)
	for _, l := range lines {
		l.offer(moment{now, during})
		close(l.moments)
	}
	all := make(chan struct{})
	go func() {
		reading.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(lastReading): // a driver that hangs is left where it is
	}
	seal.end()
}

type moment struct {
	at     time.Time
	during int
}

// line has a sampler read in a goroutine of its own, so that one that hangs stops
// no other.
type line struct {
	sampler Sampler
	moments chan moment
	record  *Recorder
	since   atomic.Int64 // when the reading that goes on began; 0 for none
	slow    bool
}

func (l *line) run() {
	defer l.sampler.Close()
	var readings []Reading
	for m := range l.moments {
		l.since.Store(m.at.UnixNano())
		readings = readings[:0]
		l.sampler.Read(m.at, func(r Reading) { readings = append(readings, r) })
		l.record.Add(m.at, m.during, readings)
		l.since.Store(0)
	}
}

// offer has the sampler read, unless it still does.
func (l *line) offer(m moment) {
	select {
	case l.moments <- m:
		if l.slow {
			l.record.Add(m.at, m.during, []Reading{{Name: Fault, Detail: fmt.Sprintf("%s answers again", l.sampler.Kind())}})
		}
		l.slow = false
	default:
		since := l.since.Load()
		if since != 0 && !l.slow && m.at.Sub(time.Unix(0, since)) > slowSampler {
			l.slow = true
			l.record.Add(m.at, m.during, []Reading{{Name: Fault, Value: 1, Detail: fmt.Sprintf("%s has not answered for %v", l.sampler.Kind(), slowSampler)}})
		}
	}
}

// sealing seals segments in a goroutine, since a shared file system may take long.
type sealing struct {
	asked chan struct{}
	done  chan struct{}
}

func sealer(o Options) sealing {
	s := sealing{asked: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		failed := false
		for range s.asked {
			err := o.Record.Seal()
			if err != nil && !failed {
				o.Log("samples are kept for the next attempt: %v", err)
			}
			failed = err != nil
		}
	}()
	return s
}

func (s sealing) ask() {
	select {
	case s.asked <- struct{}{}:
	default: // it will see this too
	}
}

// end seals what is left.
func (s sealing) end() {
	s.asked <- struct{}{}
	close(s.asked)
	<-s.done
}

// spent reads what the task does.
type spent struct {
	file   *os.File
	before phase.Totals
}

// since is what the task did for most of the time since the last call, or -1, and
// how long it did what.
func (s *spent) since() (most int, readings []Reading) {
	if s.file == nil {
		return -1, nil
	}
	totals, err := phase.Read(s.file)
	if err != nil {
		s.file = nil
		return -1, []Reading{{Name: Fault, Value: 1, Detail: err.Error()}}
	}
	most = -1
	var longest time.Duration
	for p, total := range totals {
		spent := total - s.before[p]
		if spent <= 0 {
			continue
		}
		readings = append(readings, Reading{Name: PhaseSeconds, Value: spent.Seconds(), Detail: phase.Phase(p).String()})
		if spent > longest {
			most, longest = p, spent
		}
	}
	s.before = totals
	return most, readings
}
