package simulate

import "container/heap"

// event is something that happens at a time.
type event struct {
	at    float64 // seconds since the run began
	order uint64  // among events of one time
	what  happening
	run   *attempt // of an attempt's end
	gate  *gate    // of a gate that has started
}

// happening is a kind of event.
type happening uint8

const (
	attemptEnds   happening = iota
	gateStarts              // and advances the run
	arrayMayStart           // its wait in the queue is over
	alarmRings              // an iteration is due to be closed
)

// agenda holds what is to happen, soonest first, and what was noted first among
// events of one time.
type agenda struct {
	list  []event
	noted uint64
}

func (a *agenda) Len() int { return len(a.list) }
func (a *agenda) Less(i, j int) bool {
	if a.list[i].at != a.list[j].at {
		return a.list[i].at < a.list[j].at
	}
	return a.list[i].order < a.list[j].order
}
func (a *agenda) Swap(i, j int) { a.list[i], a.list[j] = a.list[j], a.list[i] }
func (a *agenda) Push(e any)    { a.list = append(a.list, e.(event)) }
func (a *agenda) Pop() any {
	last := a.list[len(a.list)-1]
	a.list = a.list[:len(a.list)-1]
	return last
}

func (a *agenda) note(e event) {
	a.noted++
	e.order = a.noted
	heap.Push(a, e)
}

func (a *agenda) next() event { return heap.Pop(a).(event) }
