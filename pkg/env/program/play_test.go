package program

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// asking is a request as the programs of these tests read it.
type asking struct {
	ID       int             `json:"id"`
	Describe json.RawMessage `json:"describe"`
	Tasks    *struct {
		Split string `json:"split"`
	} `json:"tasks"`
	Prompt []promptView        `json:"prompt"`
	Begin  []beginning         `json:"begin"`
	Next   []turn              `json:"next"`
	Close  []map[string]string `json:"close"`
	Score  []struct {
		Task     taskView  `json:"task"`
		Messages []message `json:"messages"`
	} `json:"score"`
}

// play is a program of these tests.
func play(words []string) {
	lines := bufio.NewReader(os.Stdin)
	g := &game{vary: len(words) > 1 && words[1] == "vary", target: map[string]int{}, said: map[string]int{}}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r asking
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		switch {
		case words[0] == "start":
			start(words[1], r)
		case r.Describe != nil:
			does := `["score"]`
			if words[0] == "game" {
				does = `["score", "tasks", "begin", "next", "close"]`
			}
			if words[0] == "words" {
				does = `["score", "prompt"]`
			}
			fmt.Printf(`{"id": %d, "result": {"protocol": 1, "name": %q, "does": %s}}`+"\n", r.ID, words[0], does)
		case r.Prompt != nil:
			results := make([]string, len(r.Prompt))
			for i, item := range r.Prompt {
				results[i] = worded(item)
			}
			fmt.Printf(`{"id": %d, "result": [%s]}`+"\n", r.ID, strings.Join(results, ","))
		case words[0] == "game":
			g.answer(r)
		default:
			results := make([]string, len(r.Score))
			for i, item := range r.Score {
				results[i] = judged(words, r.ID, item.Messages[len(item.Messages)-1].Content, item.Task)
			}
			if slices.Contains(results, quit) {
				fmt.Printf(`{"id": %d, "error": "everything is wrong"}`+"\n", r.ID)
				continue
			}
			line := fmt.Sprintf(`{"id": %d, "result": [%s]}`+"\n", r.ID, strings.Join(results, ","))
			if words[0] == "bad" && words[1] == "twice" {
				line += line
			}
			fmt.Print(line)
		}
	}
}

// worded is a prompt that says what the program was told.
func worded(asked promptView) string {
	switch asked.Task.Question {
	case "empty":
		return `{"messages":[]}`
	case "slip":
		return `{"message":"x"}`
	}
	text := fmt.Sprintf("%s %s %d", asked.Task.Question, asked.Kind, len(asked.Messages))
	if asked.Verdict != nil {
		text += fmt.Sprint(" ", asked.Verdict.Reward)
	}
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, text)
}

// quit has a program refuse a request as a whole.
const quit = "quit"

// judged is the score of a program without episodes.
func judged(words []string, id int, said string, task taskView) string {
	switch {
	case words[0] == "bad" && said == "bad":
		return misbehave(words[1], id)
	case words[0] == "bad":
		return `{"reward": 0.5}`
	case words[0] == "cage":
		if said == "exit" {
			fmt.Fprintln(os.Stderr, "out of luck")
			os.Exit(4)
		}
		if _, err := os.ReadFile(said); err != nil {
			return `{"reward": 0}`
		}
		return `{"reward": 1}`
	case said == "columns":
		text, _ := plainjson.Line(map[string]any{"reward": 0, "feedback": string(task.Columns)})
		return string(text)
	}
	return said
}

// wait never returns. Of a select without cases Go would say that all goroutines are asleep,
// and end the program.
func wait() string {
	for {
		time.Sleep(time.Hour)
	}
}

// misbehave does what a program must not, or is the score that it must not give.
func misbehave(mode string, id int) string {
	say := func(format string, args ...any) string {
		fmt.Printf(format+"\n", args...)
		return wait() // who has said so much waits
	}
	die := func(words string, code int) string {
		fmt.Fprintln(os.Stderr, words)
		os.Exit(code)
		return ""
	}
	switch mode {
	case "exit":
		os.Exit(0)
	case "exit3":
		return die("Traceback (most recent call last):\n  File \"reward.py\", line 3\nValueError: the bank is empty", 3)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return wait()
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for a server")
		return wait()
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return wait()
	case "close":
		os.Stdout.Close()
		return wait()
	case "garbage":
		return say("Traceback (most recent call last):")
	case "binary":
		return say("\xff\xfe\x00\x01")
	case "nan":
		return say(`{"id": %d, "result": [{"reward": NaN}]}`, id)
	case "infinity":
		return say(`{"id": %d, "result": [{"reward": Infinity}]}`, id)
	case "nantext":
		return `{"reward":"nan"}`
	case "null":
		return `{"reward":null}`
	case "empty":
		return `{}`
	case "text":
		return `"good"`
	case "few":
		return say(`{"id": %d, "result": []}`, id)
	case "many":
		return say(`{"id": %d, "result": [{"reward": 1}, {"reward": 1}, {"reward": 1}, {"reward": 1}]}`, id)
	case "object":
		return say(`{"id": %d, "result": {"reward":1}}`, id)
	case "otherid":
		return say(`{"id": %d, "result": [{"reward": 1}]}`, id+1)
	case "twice":
		return `{"reward": 0.5}`
	case "noid":
		return say(`{"result": [{"reward": 1}]}`)
	case "textid":
		return say(`{"id": "%d", "result": [{"reward": 1}]}`, id)
	case "both":
		return say(`{"id": %d, "result": [{"reward": 1}], "error": "x"}`, id)
	case "neither":
		return say(`{"id": %d}`, id)
	case "partial":
		fmt.Printf(`{"id": %d, "res`, id)
		os.Exit(0)
	case "partialhang":
		fmt.Printf(`{"id": %d, "res`, id)
		return wait()
	case "blank":
		return say("")
	case "endless":
		block := []byte(strings.Repeat("x", 1<<20))
		for {
			if _, err := os.Stdout.Write(block); err != nil {
				os.Exit(1)
			}
		}
	case "floodlines":
		for range 100 {
			fmt.Println("y")
		}
		return wait()
	case "flooderr":
		for range 100_000 {
			fmt.Fprintln(os.Stderr, "x")
		}
		return die("end of the flood", 1)
	case "taskline":
		return say(`{"id": %d, "task": {}}`, id)
	case "range":
		return `{"reward": 1, "score": 1.5}`
	case "outcome":
		return `{"reward": 1, "outcome": "infra"}`
	case "slip":
		return `{"reward": 1, "feedbak": "good"}`
	case "turns":
		return `{"reward": 1, "turns": [{"reward": 1}, {"reward": 1}, {"reward": 1}]}`
	case "parts":
		parts := map[string]int{}
		for i := range 65 {
			parts[strconv.Itoa(i)] = i
		}
		text, _ := plainjson.Line(map[string]any{"reward": 1, "parts": parts})
		return string(text)
	case "partnan":
		return `{"reward": 1, "parts": {"a": "nan"}}`
	case "huge":
		return `{"reward": 1e999}`
	case "deep":
		return say(`{"id": %d, "result": %s}`, id, strings.Repeat("[", 100_000))
	case "itemerror":
		return `{"error": "KeyError: 'solution' (reward.py:7)"}`
	case "error":
		return quit
	case "orphan":
		sleep := exec.Command("sleep", "600")
		sleep.Stdout = os.Stdout // holds the pipe open
		_ = sleep.Start()
		os.Exit(0)
	case "sleeper":
		time.Sleep(time.Hour)
	case "negativetime":
		return `{"reward": 1, "seconds": -1}`
	case "longname":
		return `{"reward": 1, "parts": {"` + strings.Repeat("x", 101) + `": 1}}`
	}
	return "{}"
}

// start is a program that cannot be used.
func start(mode string, r asking) {
	describe := func(protocol int, does string) {
		fmt.Printf(`{"id": %d, "result": {"protocol": %d, "name": "start", "does": %s}}`+"\n", r.ID, protocol, does)
	}
	task := func(text string) { fmt.Printf(`{"id": %d, "task": %s}`+"\n", r.ID, text) }
	switch {
	case mode == "crash":
		fmt.Fprintln(os.Stderr, "Traceback:\nModuleNotFoundError: No module named 'torch'")
		os.Exit(1)
	case mode == "protocol":
		describe(2, `["score"]`)
	case mode == "error":
		fmt.Printf(`{"id": %d, "error": "no licence"}`+"\n", r.ID)
	case mode == "noscore":
		describe(1, `["tasks"]`)
	case mode == "hang":
		wait()
	case r.Describe != nil:
		describe(1, `["score", "tasks"]`)
	case mode == "twice":
		task(`{"id": "a", "prompt": "x"}`)
		task(`{"id": "a", "prompt": "y"}`)
	case mode == "notask":
		task(`{"id": "a"}`)
	case mode == "assistant":
		task(`{"prompt": [{"role": "assistant", "content": "x"}]}`)
	case mode == "slip":
		task(`{"prompt": "x", "anwser": 1}`)
	case mode == "toolcalls":
		task(`{"prompt": [{"role": "user", "content": "x", "name": null}, {"role": "assistant", "content": "x", "tool_calls": []}]}`)
	case mode == "midway":
		task(`{"prompt": "x"}`)
		os.Exit(1)
	}
}

// game asks for a number: what it answers follows from the task and the guesses.
type game struct {
	vary         bool
	target, said map[string]int
}

func (g *game) answer(r asking) {
	result := []string{}
	switch {
	case r.Tasks != nil:
		count := map[string]int{"train": 5, "test": 3}[r.Tasks.Split]
		for i := range count {
			fmt.Printf(`{"id": %d, "task": {"id": "%d", "prompt": [{"role": "system", "content": "%s"}, {"role": "user", "content": "Guess %d"}], "answer": %d}}`+"\n", r.ID, i, r.Tasks.Split, i, i+3)
		}
		fmt.Printf(`{"id": %d, "result": %d}`+"\n", r.ID, count)
		return
	case r.Begin != nil:
		for _, b := range r.Begin {
			target, _ := strconv.Atoi(fmt.Sprint(b.Task.Answer))
			g.target[b.Episode] = target
			result = append(result, "{}")
		}
	case r.Next != nil:
		for _, n := range r.Next {
			target, known := g.target[n.Episode]
			if !known {
				result = append(result, `{"error": "who is that?"}`)
				continue
			}
			guess, _ := strconv.Atoi(n.Message)
			said := fmt.Sprintf("higher than %d", guess)
			if n.Verdict != nil {
				said += fmt.Sprintf(", you have %v", n.Verdict.Reward)
			}
			if g.vary {
				said = strconv.Itoa(os.Getpid())
			}
			if guess >= target {
				result = append(result, "{}")
				continue
			}
			result = append(result, fmt.Sprintf(`{"messages": [{"role": "user", "content": %q}]}`, said))
		}
	case r.Close != nil:
		for _, c := range r.Close {
			delete(g.target, c["episode"])
			result = append(result, "{}")
		}
	}
	fmt.Printf(`{"id": %d, "result": [%s]}`+"\n", r.ID, strings.Join(result, ","))
}
