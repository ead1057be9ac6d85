package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// ready makes sure that the slot has a program. One that does not start, after as
// many tries as the settings have, is the end of all requests.
func (p *pool) ready(s *slot) error {
	if s.process != nil && s.process.Talks() {
		p.mutex.Lock()
		p.endProgram(s)
		if p.talked++; p.talked >= mostInARow {
			p.broken = exitcode.Unavailablef("the program %q printed more than was requested: use standard output only for answers, and standard error for other output", p.settings.Command[0])
		}
		err := p.broken
		p.mutex.Unlock()
		if err != nil {
			return err
		}
	}
	if s.process != nil {
		return nil
	}
	for try := 0; ; try++ {
		started, about, err := p.start()
		p.mutex.Lock()
		broken := p.broken
		switch {
		case err == nil:
			s.process, p.about = started, about
		case try >= p.settings.Retries && broken == nil:
			p.broken = err
		}
		p.mutex.Unlock()
		if err == nil || broken != nil || try >= p.settings.Retries {
			return err
		}
	}
}

// start starts a program and asks it what it is.
func (p *pool) start() (*stdio.Process, *description, error) {
	hint := func(err error) error { return exitcode.WithHint(err, commandHint, p.launcher.folder) }
	started, err := p.launcher.launch()
	if err != nil {
		return nil, nil, hint(err)
	}
	p.mutex.Lock()
	p.alive[started] = true
	closed := p.closed
	p.mutex.Unlock()
	if closed {
		started.Kill() // the one that closed did not see it
	}
	about, err := p.describe(started)
	if err != nil {
		p.mutex.Lock()
		delete(p.alive, started)
		p.mutex.Unlock()
		started.Close()
		return nil, nil, hint(exitcode.Unavailablef("%w", err))
	}
	return started, about, nil
}

func (p *pool) describe(started *stdio.Process) (*description, error) {
	defer p.begin(verbDescribe, seconds(p.settings.StartSeconds), "env.program.start_seconds")()
	a, err := started.Ask(context.Background(), stdio.Request{verbDescribe: map[string]int{"protocol": protocol}}, seconds(p.settings.StartSeconds))
	switch {
	case err != nil:
		return nil, err
	case a.Error != nil:
		return nil, errors.New((&itemError{"start", *a.Error}).Error())
	}
	d := &description{}
	if err := plainjson.Strict(a.Result, d); err != nil {
		return nil, fmt.Errorf(`the program %q describes itself as %s, want {"protocol", "name", "does", "answer"}: %w`, p.settings.Command[0], stdio.Shown(a.Result), err)
	}
	if d.Protocol != protocol {
		return nil, fmt.Errorf(`the program %q describes itself as %s, want {"protocol": %d, "does": […]} (see data/README.md)`, p.settings.Command[0], stdio.Shown(a.Result), protocol)
	}
	return d, nil
}

// close ends all programs, and waits until they and all that they have started are
// gone; whoever waits for one is told so.
func (p *pool) close() {
	p.mutex.Lock()
	p.broken, p.closed = errors.New("the environment is closed"), true
	for process := range p.alive {
		process.Kill()
	}
	p.mutex.Unlock()
	p.changed.Broadcast()
	p.workers.Wait()
}

// begin notes that a request is waited for, until it is answered.
func (p *pool) begin(request string, limit time.Duration, setting string) (end func()) {
	return p.waits.Begin(env.Wait{
		Program: strings.Join(p.settings.Command, " "), Request: request, Since: time.Now(), Limit: limit, Setting: setting,
	})
}
