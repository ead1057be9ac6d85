package efficiency

import "time"

// moment is a value and the stretch of time that it stands for.
type moment struct {
	at      time.Time // its end
	seconds float64
	value   float64
}

// mostMoments bounds what a time line keeps; beyond it two neighbours become one.
const mostMoments = 512

// gapFactor is how many times the interval between two samples a stretch may be
// before it is taken for a gap, in which nothing is known.
const gapFactor = 20

// weighted is a mean over time.
type weighted struct{ seconds, sum float64 }

func (w *weighted) add(seconds, value float64) {
	w.seconds += seconds
	w.sum += seconds * value
}

func (w *weighted) merge(o weighted) {
	w.seconds += o.seconds
	w.sum += o.sum
}

func (w weighted) mean() *float64 {
	if w.seconds <= 0 {
		return nil
	}
	mean := w.sum / w.seconds
	return &mean
}

// series is one number of one device in one attempt, over time.
type series struct {
	count     int
	last, max float64
	at        int64   // microseconds, of the last
	least     float64 // interval between two samples, in seconds
	grown     float64 // of a counter, which may begin again
	over      weighted
	byPhase   map[string]weighted
	grownBy   map[string]float64
	nonzero   weighted // share of the time in which it was not zero
	line      []moment // where it is kept
	keep      bool
}

// add takes the next sample.
func (s *series) add(micros int64, value float64, phase string, bits float64) {
	defer func() { s.count, s.at, s.last = s.count+1, micros, value }()
	if s.count == 0 {
		s.max = value
		return
	}
	s.max = max(s.max, value)
	seconds := float64(micros-s.at) / 1e6
	if seconds <= 0 {
		return
	}
	// A counter that goes back was begun again, by a driver that was reloaded.
	growth := value - s.last
	if growth < 0 {
		growth = 0
	}
	s.grown += growth
	if s.least == 0 || seconds < s.least {
		s.least = seconds
	}
	if seconds > gapFactor*s.least {
		return
	}
	s.over.add(seconds, value)
	if s.byPhase == nil {
		s.byPhase, s.grownBy = map[string]weighted{}, map[string]float64{}
	}
	w := s.byPhase[phase]
	w.add(seconds, value)
	s.byPhase[phase] = w
	s.grownBy[phase] += growth
	s.nonzero.add(seconds, bits)
	if s.keep {
		s.line = append(s.line, moment{time.UnixMicro(micros).UTC(), seconds, value})
		if len(s.line) > mostMoments {
			s.line = halved(s.line)
		}
	}
}

// halved makes one of two neighbours, unless there is a gap between them, or one takes
// no time: it is where the line falls.
func halved(line []moment) []moment {
	out := line[:0]
	for i := 0; i < len(line); i++ {
		m := line[i]
		if i+1 < len(line) {
			n := line[i+1]
			if between := n.at.Sub(m.at).Seconds() - n.seconds; between < n.seconds && m.seconds > 0 {
				m = moment{n.at, m.seconds + n.seconds, (m.value*m.seconds + n.value*n.seconds) / (m.seconds + n.seconds)}
				i++
			}
		}
		out = append(out, m)
	}
	return out
}
