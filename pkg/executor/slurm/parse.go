package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// NoIndex is the index of a job that is no array.
const NoIndex = -1

// TaskID names one task of an array, or a plain job. An array task has a raw
// id of its own too, but the last one shares it with the whole array, so raw
// ids are never used.
type TaskID struct {
	Job   string
	Index int // NoIndex for a plain job
}

// String is the id as Slurm's commands take it: 12_3, or 12.
func (t TaskID) String() string {
	if t.Index == NoIndex {
		return t.Job
	}
	return t.Job + "_" + strconv.Itoa(t.Index)
}

// maxIndex is above every array index: slurm.conf bounds MaxArraySize by
// 4,000,001.
const maxIndex = 4_000_001

// parseTasks reads the id column of squeue and sacct: 12, 12_3, or pending
// tasks of an array in one, 12_[5-10,12%2] and 12_[0-8:4].
func parseTasks(text string) ([]TaskID, error) {
	job, rest, isArray := strings.Cut(text, "_")
	if !isNumber(job) {
		return nil, fmt.Errorf("%q is not a job id", text)
	}
	if !isArray {
		return []TaskID{{job, NoIndex}}, nil
	}
	indices, bracketed := strings.CutPrefix(rest, "[")
	if !bracketed {
		index, err := parseIndex(rest)
		if err != nil {
			return nil, fmt.Errorf("%q is not a job id: %w", text, err)
		}
		return []TaskID{{job, index}}, nil
	}
	indices, closed := strings.CutSuffix(indices, "]")
	if !closed { // cut off at SLURM_BITSTR_LEN
		return nil, fmt.Errorf("the list of tasks in %q is cut off", text)
	}
	indices, _, _ = strings.Cut(indices, "%")
	listed, err := parseIndices(indices)
	if err != nil {
		return nil, fmt.Errorf("%q is not a list of tasks: %w", text, err)
	}
	tasks := make([]TaskID, len(listed))
	for i, index := range listed {
		tasks[i] = TaskID{job, index}
	}
	return tasks, nil
}

// parseIndices reads ranges: 5-10,12.
func parseIndices(text string) ([]int, error) {
	var indices []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, step, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		if len(indices)+(last-first)/step >= maxIndex {
			return nil, fmt.Errorf("%q exceeds the size of an array", part)
		}
		for i := first; i <= last; i += step {
			indices = append(indices, i)
		}
	}
	return indices, nil
}

// parseRange reads 5, 5-10 or 5-11:2.
func parseRange(text string) (first, last, step int, err error) {
	text, stepText, stepped := strings.Cut(text, ":")
	step = 1
	if stepped {
		if step, err = parseIndex(stepText); err != nil {
			return 0, 0, 0, err
		}
	}
	from, to, isRange := strings.Cut(text, "-")
	if first, err = parseIndex(from); err != nil {
		return 0, 0, 0, err
	}
	last = first
	if isRange {
		if last, err = parseIndex(to); err != nil {
			return 0, 0, 0, err
		}
	}
	if step < 1 || last < first {
		return 0, 0, 0, fmt.Errorf("%q is not a range", text)
	}
	return first, last, step, nil
}

func parseIndex(text string) (int, error) {
	if !isNumber(text) {
		return 0, fmt.Errorf("%q is not an index", text)
	}
	index, err := strconv.Atoi(text)
	if err != nil || index >= maxIndex {
		return 0, fmt.Errorf("%q is not an index of an array", text)
	}
	return index, nil
}

// isNumber reports whether text is one or more digits, and nothing else.
func isNumber(text string) bool {
	return text != "" && len(text) <= 20 && strings.Trim(text, "0123456789") == ""
}

// parseJobID reads what sbatch --parsable prints: ID or ID;CLUSTER, after
// whatever a site's plugins have to say.
func parseJobID(text string) (string, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	id := strings.TrimSpace(lines[len(lines)-1])
	if !isNumber(bareID(id)) {
		return "", exitcode.Unavailablef("sbatch printed %q where a job id was expected", first(text, 80))
	}
	return id, nil
}

// bareID is a job id without its cluster.
func bareID(id string) string {
	bare, _, _ := strings.Cut(id, ";")
	return bare
}

// record is what one line of squeue or sacct says about some tasks.
type record struct {
	tasks    []TaskID
	state    string // one word in capitals
	code     int
	signal   int
	restarts int
	start    time.Time // zero when it is not known
	end      time.Time
	nodes    string
	reason   string // empty when there is none
}

// squeueFields is the format of squeue whose lines parseSqueue reads. A
// suffix without a width makes columns as wide as their content. The reason
// comes last, since it may hold anything.
const squeueFields = "JobArrayID:|,State:|,exit_code:|,RestartCnt:|,StartTime:|,EndTime:|,NodeList:|,Reason:|"

// parseSqueue reads the output of squeue -h -O squeueFields.
func parseSqueue(text string) ([]record, error) {
	return parseRecords("squeue", text, 8, func(fields []string) (r record, err error) {
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		r = record{start: parseTime(fields[4]), end: parseTime(fields[5]), nodes: fields[6], reason: noNone(strings.TrimSuffix(fields[7], "|"))}
		r.restarts, err = strconv.Atoi(fields[3])
		return r, err
	})
}

// parseRecords reads lines of so many columns, which begin with the ids of tasks, their
// state and their exit status; rest reads the others.
func parseRecords(command, text string, columns int, rest func(fields []string) (record, error)) ([]record, error) {
	var records []record
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n ")
		if line == "" {
			continue
		}
		fields := strings.SplitN(line, "|", columns)
		if len(fields) != columns {
			return nil, malformed(command, line)
		}
		if _, step, isStep := strings.Cut(fields[0], "."); isStep && step != "" {
			continue // .batch, .extern and steps say nothing about the job
		}
		r, err := rest(fields)
		if err == nil {
			r.tasks, err = parseTasks(fields[0])
		}
		if err == nil {
			r.code, r.signal, err = parseStatus(fields[2])
		}
		if r.state = stateWord(fields[1]); err != nil || r.state == "" || r.restarts < 0 {
			return nil, malformed(command, line)
		}
		records = append(records, r)
	}
	return records, nil
}

// sacctFields is the format of sacct whose lines parseSacct reads.
const sacctFields = "JobID,State,ExitCode,Start,End,NodeList,Reason"

// parseSacct reads the output of sacct -n -X -P -D -o sacctFields. Of several
// lines about one task, which -D gives for each time it was requeued, the
// last is the newest.
func parseSacct(text string) ([]record, error) {
	return parseRecords("sacct", text, 7, func(fields []string) (record, error) {
		return record{start: parseTime(fields[3]), end: parseTime(fields[4]), nodes: noNone(fields[5]), reason: noNone(fields[6])}, nil
	})
}

func malformed(command, line string) error {
	return exitcode.Unavailablef("%s printed an invalid line: %q", command, first(line, 200))
}

// stateWord takes the state out of "CANCELLED by 1000" and "CANCELLED+"; it
// is empty when there is none.
func stateWord(text string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	word = strings.TrimSuffix(word, "+")
	if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return ""
	}
	return word
}

// parseStatus reads an exit status: CODE:SIGNAL, or the wait status of the
// process as squeue prints it.
func parseStatus(text string) (code, signal int, err error) {
	if codeText, signalText, both := strings.Cut(text, ":"); both {
		if code, err = strconv.Atoi(codeText); err != nil {
			return 0, 0, err
		}
		signal, err = strconv.Atoi(signalText)
		return code, signal, err
	}
	status, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	return int(status >> 8 & 0xff), int(status & 0x7f), nil
}

// parseTime reads the seconds since 1970 that SLURM_TIME_FORMAT=%s asks for;
// Unknown, N/A and None are the zero time.
func parseTime(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 || seconds > 1<<40 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func noNone(text string) string {
	switch text {
	case "None", "(null)", "None assigned":
		return ""
	}
	return text
}
