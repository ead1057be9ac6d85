package simulate

// event is something that happens at a time.
type event struct {
	at    float64 // seconds since the run began
	order uint64  // among events of one time
	what  happening
	run   *attempt // of an attempt's end, and of its place
	gate  *gate    // of a gate that has started
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// happening is a kind of event.
type happening uint8

const (
	attemptEnds   happening = iota
	gateStarts              // and advances the run
	arrayMayStart           // its wait in the queue is over
	placeIsFree             // that an attempt had
	alarmRings              // an iteration is due to be closed
)

// agenda holds what is to happen, soonest first, and what was noted first among
// events of one time: a heap, without the interface of container/heap, which would put
// each event into memory of its own.
type agenda struct {
	list  []event
	noted uint64
}

func (a *agenda) note(e event) {
	a.noted++
	e.order = a.noted
	a.list = append(a.list, e)
	i := len(a.list) - 1
	for i > 0 && e.before(a.list[(i-1)/2]) {
		a.list[i] = a.list[(i-1)/2]
		i = (i - 1) / 2
	}
	a.list[i] = e
}

func (a *agenda) next() event {
	first, end := a.list[0], len(a.list)-1
	last := a.list[end]
	a.list[end] = event{}
	a.list = a.list[:end]
	for i := 0; end > 0; {
		child := 2*i + 1
		if child+1 < end && a.list[child+1].before(a.list[child]) {
			child++
		}
		if child >= end || last.before(a.list[child]) {
			a.list[i] = last
			break
		}
		a.list[i] = a.list[child]
		i = child
	}
	return first
}

// attempts lists those that run.
func (a *agenda) attempts() []*attempt {
	var all []*attempt
	for _, e := range a.list {
		if e.what == attemptEnds && !e.run.over {
			all = append(all, e.run)
		}
	}
	return all
}
