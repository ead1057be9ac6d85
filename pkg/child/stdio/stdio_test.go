package stdio

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/await"
)

// open starts a script of the shell.
func open(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Command([]string{"sh", "-c", script}, t.TempDir(), child.Environment(), nil).Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`read line; echo "$line" | grep -q '{"id":1,"say":"<a>"}' && echo '{"id": 1, "result": [2]}'; sleep 60`: "",
		`read line; echo '{"id": 1, "error": "no"}'; sleep 60`:                                                  "",
		`read line; echo first >&2; echo '  why ' >&2; exit 3`:                                                  `the program "sh" ended: exit status 3; its last words: why`,
		`exit 0`:                                 `the program "sh" ended: exit code 0`,
		`read line; printf '{"id": 1, '; exit 4`: `the program "sh" ended, exit status 4, in the middle of an answer, {"id": 1,`,
		`read line; echo '{"id": 2, "result": 1}'; sleep 60`:                  `answered request 1 with {"id": 2, "result": 1}: one line`,
		`read line; echo '{"id": 1, "result": 1, "error": "both"}'; sleep 60`: `answered request 1 with {"id": 1, "result": 1, "error": "both"}: one line`,
		`read line; echo '{"id": 1, "task": {"a": 1}}'; sleep 60`:             `answered request 1 with {"a": 1}: one line`,
		`read line; echo hello; sleep 60`:                                     `answered request 1 with hello: one line`,
		`read line; tr '\0' x </dev/zero`:                                     `its answer has more than 16777216 bytes`,
	} {
		a, err := open(t, script).Ask(t.Context(), Request{"say": "<a>"}, time.Minute)
		switch {
		case want == "" && (err != nil || string(a.Result) != "[2]" && (a.Error == nil || *a.Error != "no")):
			t.Errorf("%s: %s, %v", script, a.Result, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", script, err, want)
		case strings.Contains(want, " ended") != errors.As(err, new(*EndedError)):
			t.Errorf("%s: %v is an EndedError, or none", script, err)
		}
	}
}

// Whoever is waited for in vain is ended, and so is who is not waited for any more.
func TestAskEnds(t *testing.T) {
	t.Parallel()
	p := open(t, "sleep 600")
	if _, err := p.Ask(t.Context(), Request{}, 50*time.Millisecond); err == nil || err.Error() != `the program "sh" did not answer within 50ms` {
		t.Errorf("late: %v", err)
	}
	<-p.running.Gone

	p = open(t, "sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := p.Ask(ctx, Request{}, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	<-p.running.Gone
}

func TestTalks(t *testing.T) {
	t.Parallel()
	p := open(t, `read line; echo '{"id": 1, "result": 1}'; read line; echo unasked; sleep 600`)
	if _, err := p.Ask(t.Context(), Request{}, time.Minute); err != nil || p.Talks() {
		t.Fatalf("%v, or it talks", err)
	}
	if err := p.Send(Request{}, time.Minute); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the program talks unasked", p.Talks)
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	_, err := Command([]string{"./nowhere"}, t.TempDir(), nil, nil).Open()
	if exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), `starting the program "./nowhere"`) {
		t.Errorf("%v", err)
	}
}
