package bfcl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// A task of two turns with calls, and one without between them, checked by
// hand: the counter of tickets is 1 at the beginning, and each ticket raises it.
func TestCheck(t *testing.T) {
	t.Parallel()
	const login, create = "ticket_login('ann', 'x')", "create_ticket('a', priority=2)"
	parse := func(turns [][]string) [][]Call {
		var all [][]Call
		for _, turn := range turns {
			var calls []Call
			for _, text := range turn {
				call, err := ParseCall(text)
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, call)
			}
			all = append(all, calls)
		}
		return all
	}
	task := Task{ID: "by hand", Classes: []string{"TicketAPI"}, config: &python.Dict{}}
	var err error
	if task.Truth, err = task.named(parse([][]string{{login, create}, {}, {create, create, "get_ticket(2)"}})); err != nil {
		t.Fatal(err)
	}
	const state, response, empty = StateMismatch, ResponseMismatch, EmptyTurn
	for _, c := range []struct {
		what  string
		turns [][]string
		want  Verdict
	}{
		{"the reference", [][]string{{login, create}, {}, {create, create, "get_ticket(2)"}}, Verdict{true, "", true, true, 1}},
		{
			// 2.0 is equal to 2 as an argument and in the state, but not in the text of a result.
			"named arguments, another order, calls more, a turn more with calls",
			[][]string{
				{"ticket_login(username='ann', password='x')", "get_ticket(7)", create},
				{"ticket_get_login_status()"},
				{create, "get_ticket(ticket_id=2)", "create_ticket(priority=2.0, title='a')"},
			},
			Verdict{false, response, true, true, 1},
		},
		{
			// The second ticket is a different call with the same effect.
			"a default written out",
			[][]string{{login, create}, {}, {create, "create_ticket('a', '', 2)", "get_ticket(2)"}},
			Verdict{true, "", true, false, 0},
		},
		{
			"a call once that is needed twice",
			[][]string{{login, create}, {}, {create, "get_ticket(2)"}},
			Verdict{false, state, false, false, 0},
		},
		{
			"everything in the first turn",
			[][]string{{login, create, create, create, "get_ticket(2)"}, {}, {}},
			Verdict{false, state, true, false, 0},
		},
		{
			"a turn without calls",
			[][]string{{login, create}},
			Verdict{false, empty, false, false, 0},
		},
		{
			"a ticket more than there should be",
			[][]string{{login, create}, {create}, {create, create, "get_ticket(2)"}},
			Verdict{false, state, false, true, 0},
		},
		{
			"no look at the ticket",
			[][]string{{login, create}, {}, {create, create}},
			Verdict{false, response, true, false, 0},
		},
		{
			// It succeeds only after the login, so its first attempt counts for nothing.
			"an attempt before the login",
			[][]string{{create, login}, {}, {create, create, "get_ticket(2)"}},
			Verdict{false, state, false, false, 0},
		},
		{"nothing", nil, Verdict{false, empty, false, false, 0}},
	} {
		got, err := Check(task, parse(c.turns))
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v (%v), want %+v", c.what, got, err, c.want)
		}
	}
	if _, err := Check(task, make([][]Call, 4)); err == nil || !strings.Contains(err.Error(), "the calls have 4 turns") {
		t.Errorf("four turns for a task of three: %v", err)
	}
}

func TestReadTasksNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const task = `{"id": "t", "question": [[{"role": "user", "content": "hi"}]], "involved_classes": ["MathAPI"], "initial_config": {}}`
	for _, c := range []struct{ tasks, answers, want string }{
		{task, `{"id": "t", "ground_truth": [["mean([1)"]]}`, "line 1: t, mean([1)"},
		{task, `{"id": "t", "ground_truth": [["mean([1])"], []]}`, "t has 1 turns and answers to 2"},
		{task, `{"id": "s", "ground_truth": []}`, "t has no answer"},
		{task, `{"id": "t", "ground_truth": [["cat('x')"]]}`, "there is no tool cat"},
		{strings.Replace(task, "MathAPI", "ChessAPI", 1), `{"id": "t", "ground_truth": [[]]}`, `no API class "ChessAPI"`},
		{"{", `{"id": "t", "ground_truth": [[]]}`, TasksFile + ", line 1"},
		{"\uFEFF\r\n\n{", `{"id": "t", "ground_truth": [[]]}`, TasksFile + ", line 3"}, // a mark and blank lines are no tasks
		{strings.Replace(task, `{}`, `[]`, 1), `{"id": "t", "ground_truth": [[]]}`, "initial_config is no object"},
	} {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, AnswersFolder), 0o755); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{TasksFile: c.tasks, filepath.Join(AnswersFolder, TasksFile): c.answers} {
			if err := os.WriteFile(filepath.Join(folder, path), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadTasks(folder); err == nil || !strings.Contains(err.Error(), c.want) || exitcode.Code(err) != exitcode.Data {
			t.Errorf("got %v, want an error of the data that holds %q", err, c.want)
		}
	}
	if _, err := ReadTasks(t.TempDir()); exitcode.Code(err) != exitcode.Data {
		t.Errorf("an empty folder: got %v, want an error of the data", err)
	}
}
