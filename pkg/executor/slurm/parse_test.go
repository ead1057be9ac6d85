package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func capture(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "capture", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestParseTasks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]TaskID{
		"12":               {{"12", NoIndex}},
		"12_3":             {{"12", 3}},
		"12_[3]":           {{"12", 3}},
		"12_[0-2]":         {{"12", 0}, {"12", 1}, {"12", 2}},
		"1080_[5-7,10%2]":  {{"1080", 5}, {"1080", 6}, {"1080", 7}, {"1080", 10}},
		"12_[0-8:4]":       {{"12", 0}, {"12", 4}, {"12", 8}},
		"12_[0-7:4,9-9%1]": {{"12", 0}, {"12", 4}, {"12", 9}},
	} {
		got, err := parseTasks(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "x", "12_", "12_x", "12_[", "12_[]", "12_[1-", "12_[1-2", "12_[3-1]", "12_[1-4:0]", "12_[1,2,...]", "12+0", "12.batch", "_3",
		"12_[0-4000000000]", "12_[0-4000000,0-4000000]", "12_-1", "99999999999999999999999999_1",
	} {
		if got, err := parseTasks(text); err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q is %v, %v; want an error that quotes it", text, got, err)
		}
	}
	if got := (TaskID{"12", 3}).String() + " " + (TaskID{"12", NoIndex}).String(); got != "12_3 12" {
		t.Errorf("ids are %q", got)
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"0":     {0, 0},
		"16640": {65, 0},  // 65 << 8
		"9":     {0, 9},   // a signal
		"139":   {0, 11},  // a signal and 0x80 for a core dump
		"4021":  {15, 53}, // what slurmd reports for a log that it cannot open
		"65:0":  {65, 0},
		"0:9":   {0, 9},
	} {
		code, signal, err := parseStatus(text)
		if err != nil || code != want[0] || signal != want[1] {
			t.Errorf("%q is %d:%d, %v; want %v", text, code, signal, err, want)
		}
	}
	for _, text := range []string{"", "x", ":", "1:", "-1", "99999999999"} {
		if _, _, err := parseStatus(text); !errors.Is(err, strconv.ErrSyntax) && !errors.Is(err, strconv.ErrRange) {
			t.Errorf("%q as a status: %v, want an error of a number", text, err)
		}
	}
}

func TestStateWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"RUNNING": "RUNNING", "CANCELLED by 1000": "CANCELLED", "CANCELLED+": "CANCELLED", " NODE_FAIL ": "NODE_FAIL",
		"": "", "running": "", "1_2": "",
	} {
		if got := stateWord(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestParseJobID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		capture(t, "sbatch.txt"): "17", "12;cluster\n": "12;cluster", "sbatch: your quota is low\n12\n": "12",
	} {
		if got, err := parseJobID(text); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Submitted batch job 12", ";cluster", "-3"} {
		if got, err := parseJobID(text); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%q is %q, %v; want an error", text, got, err)
		}
	}
}

func TestParseConfig(t *testing.T) {
	t.Parallel()
	got, err := parseConfig(capture(t, "config.txt"))
	want := Limits{
		Version: "22.05.8", MaxArraySize: 101, MaxJobCount: 2000, MinJobAge: 300 * time.Second, KillWait: 5 * time.Second,
		Accounting: true, UserSignal: true, Requeue: true,
	}
	if err != nil || got != want {
		t.Errorf("limits are %+v, %v; want %+v", got, err, want)
	}
	got, err = parseConfig("MaxArraySize = 1001\nMaxJobCount=10000\nSchedulerParameters = defer,max_array_tasks=500,bf_interval=2\n" +
		"PreemptParameters = send_user_signal\nAccountingStorageType = (null)\nAccountingStorageType = accounting_storage/none\n")
	want = Limits{MaxArraySize: 1001, MaxJobCount: 10000, MaxArrayTasks: 500, UserSignal: true}
	if err != nil || got != want {
		t.Errorf("limits are %+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "MaxArraySize = many\n", "MaxArraySize = 99999999999999999999\nMaxJobCount = 5\n"} {
		if got, err := parseConfig(text); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%q gives %+v, %v; want an error", text, got, err)
		}
	}
}

func TestMalformedLinesAreErrors(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"12_1|RUNNING|0", "x|RUNNING|0|0|N/A|N/A||None|", "12_1||0|0|N/A|N/A||None|", "12_1|RUNNING|x|0|N/A|N/A||None|",
		"12_1|RUNNING|0|-1|N/A|N/A||None|", "slurm_load_jobs error: Zero Bytes were transmitted",
	} {
		if got, err := parseSqueue(line + "\n"); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("squeue's %q is %+v, %v; want an error", line, got, err)
		}
	}
	for _, line := range []string{"12_1|RUNNING", "x|RUNNING|0:0|1|2|n1|None", "12_1||0:0|1|2|n1|None", "12_1|RUNNING|0:x|1|2|n1|None"} {
		if got, err := parseSacct(line + "\n"); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("sacct's %q is %+v, %v; want an error", line, got, err)
		}
	}
}

func TestStepsAreLeftOut(t *testing.T) {
	t.Parallel()
	records, err := parseSacct(capture(t, "sacct-steps.txt"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := parseSacct(capture(t, "sacct.txt"))
	if err != nil {
		t.Fatal(err)
	}
	whole = slices.DeleteFunc(whole, func(r record) bool { return r.tasks[0].Job != "1" && r.tasks[0].Job != "2" })
	if len(records) != len(whole) || len(records) == 0 {
		t.Errorf("%d records with steps, %d without; want the same", len(records), len(whole))
	}
}

func FuzzParseSqueue(f *testing.F) {
	f.Add(capture(f, "squeue.txt"))
	f.Add("2_[6,8-20:4%2] |PENDING |0:15 |1 |N/A |17 | |a|b| |\n")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := parseSqueue(text)
		checkRecords(t, records, err)
	})
}

func FuzzParseSacct(f *testing.F) {
	f.Add(capture(f, "sacct.txt"))
	f.Add(capture(f, "sacct-steps.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		records, err := parseSacct(text)
		checkRecords(t, records, err)
	})
}

// checkRecords: what is accepted names tasks that can exist, and can be
// scored.
func checkRecords(t *testing.T, records []record, err error) {
	if err != nil {
		if exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("error is %v, want one of code %d", err, exitcode.Unavailable)
		}
		return
	}
	for _, r := range records {
		for _, task := range r.tasks {
			if !isNumber(task.Job) || task.Index < NoIndex || task.Index >= maxIndex {
				t.Fatalf("task %+v", task)
			}
		}
		if s := stateOf(r, "test"); (s.Phase == PhaseEnded || s.Phase == PhaseUnknown) != (s.Cause != "") || s.Evidence == "" {
			t.Fatalf("record %+v is judged %+v", r, s)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(capture(f, "config.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := parseConfig(text); err == nil && (l.MaxArraySize < 1 || l.MaxJobCount < 1 || l.MaxArrayTasks < 0) {
			t.Errorf("limits are %+v", l)
		}
	})
}

func FuzzParseJobID(f *testing.F) {
	f.Add("17\n")
	f.Add("12;cluster\n")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := parseJobID(text); err == nil && !isNumber(bareID(id)) {
			t.Errorf("%q is job %q", text, id)
		}
	})
}
