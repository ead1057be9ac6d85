package command

import (
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// DataTasksOptions are those of lathe data tasks.
type DataTasksOptions struct {
	Folders []string // tasks, or folders of tasks
	JSON    bool
}

// listedTask is a machine-learning task as a person wants to see it.
type listedTask struct {
	Name        string   `json:"name"`
	Split       string   `json:"split"`
	Modality    string   `json:"modality"`
	Complexity  string   `json:"complexity"`
	Metric      string   `json:"metric"`
	Direction   string   `json:"direction"`
	Teams       int      `json:"leaderboard_entries"`
	BoardOf     string   `json:"leaderboard_of"`   // people, or reference: programs
	Best        *float64 `json:"leaderboard_best"` // null, as the median, where there is no leaderboard
	Median      *float64 `json:"leaderboard_median"`
	Grader      string   `json:"grader"`                  // of the task's own, which is not run here; else empty
	Baseline    *float64 `json:"sample_submission_score"` // null where the sample is no valid submission, or a grader of the task's own scores it
	WallSeconds float64  `json:"wall_seconds"`
}

func dataTasksCommand() *cli.Command {
	var o DataTasksOptions
	return cmdline.Help{
		Example: "lathe data tasks data/mle/small",
		Exits:   cmdline.Exits(exitcode.Data),
	}.Command(&cli.Command{
		Name: "tasks", Usage: "list machine-learning tasks, with the score of each sample submission", ArgsUsage: "FOLDER...",
		Flags: []cli.Flag{cmdline.JSONFlag(&o.JSON)},
		Action: func(c *cli.Context) error {
			if o.Folders = c.Args().Slice(); len(o.Folders) == 0 {
				return exitcode.Usagef("name a folder of tasks")
			}
			return DataTasks(c.App.Writer, o)
		},
	})
}

// DataTasks lists the tasks of folders, by name.
func DataTasks(out io.Writer, o DataTasksOptions) error {
	tasks, notes, err := task.Find(o.Folders, nil)
	if err != nil {
		return err
	}
	printNotes(os.Stderr, notes)
	var listed []listedTask
	for _, t := range tasks {
		row := listedTask{
			Name: t.Name, Split: t.Split, Modality: t.Modality, Complexity: t.Complexity, Metric: t.Metric, Direction: t.Direction,
			Grader: t.Program.File, Teams: t.Board.Teams(), BoardOf: t.Leaderboard.Of, WallSeconds: t.Limits.WallSeconds,
		}
		if !t.Board.Empty() {
			_, best := t.Board.Ends()
			median := mlebench.Round(t.Board.Thresholds().Median)
			row.Best, row.Median = &best, &median
		}
		sample, err := plainfile.ReadWhole(t.Path(t.SampleSubmission))
		if err != nil {
			return err
		}
		if score, err := t.Grader.Score(sample); err == nil && !math.IsNaN(score) && !math.IsInf(score, 0) {
			row.Baseline = &score
		}
		listed = append(listed, row)
	}
	if o.JSON {
		return cmdline.WriteJSON(out, listed)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "task\tsplit\tdata\tmetric\tsample\tmedian\tbest\tboard")
	for _, t := range listed {
		sample := "not valid"
		if t.Grader != "" {
			sample = "by " + t.Grader
		}
		if t.Baseline != nil {
			sample = fmt.Sprint(*t.Baseline)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s, %s\t%s\t", t.Name, t.Split, t.Modality, t.Metric, t.Direction, sample)
		if t.Best == nil {
			fmt.Fprintln(table, "\t\tnone")
			continue
		}
		fmt.Fprintf(table, "%v\t%v\t%d %s\n", *t.Median, *t.Best, t.Teams, boardWords[t.BoardOf])
	}
	return table.Flush()
}

var boardWords = map[string]string{"people": "teams", "reference": "reference programs"}
