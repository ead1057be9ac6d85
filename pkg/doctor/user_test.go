package doctor

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Lines as sacctmgr -n -P prints them.
const (
	associationLines = "physics||40|12|normal,long|long\nphysics|gpu|||normal|\nmath||30||debug,normal|\n"
	qosLines         = "long|25|16\nnormal||\ngpuqos||4\n"
)

func TestParseAssociations(t *testing.T) {
	t.Parallel()
	want := []association{
		{account: "physics", submitted: 40, running: 12, qos: "long"},
		{account: "physics", partition: "gpu", qos: "normal"},
		{account: "math", submitted: 30, qos: "normal"},
	}
	if got := parseAssociations(associationLines + "cut|off\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestPartitionQOS(t *testing.T) {
	t.Parallel()
	if got := partitionQOS("PartitionName=low AllowQos=ALL QoS=N/A\n"); got != nil {
		t.Errorf("%q", got)
	}
	if got := partitionQOS("PartitionName=gpu AllowQos=ALL AllocNodes=ALL QoS=gpuqos DefaultTime=NONE\n"); !reflect.DeepEqual(got, []string{"gpuqos"}) {
		t.Errorf("%q", got)
	}
}

// What binds the jobs of a user is asked for by programs that stand for Slurm's, and
// the least of it is set. Alone: PATH is the environment's.
func TestReportUser(t *testing.T) {
	programs := t.TempDir()
	for name, script := range map[string]string{
		"sacctmgr": "case \"$*\" in *' associations '*' cluster=here '*) printf '" + associationLines + "' ;; *' qos name=gpuqos,long '*) printf '" + qosLines + "' ;; *) echo \"$*\" >&2; exit 1 ;; esac",
		"scontrol": "echo PartitionName=gpu QoS=gpuqos",
		"sbatch":   "exit 1", "squeue": "exit 1", "scancel": "exit 1", "sinfo": "exit 1",
	} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "\n", `\n`)+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs)
	opened, err := slurm.Open(site.Default())
	if err != nil {
		t.Fatal(err)
	}
	c := Cluster{Slurm: opened, Site: site.Profile{Account: "physics", QOS: "long"}, Partition: Partition{Name: "gpu"}}
	config := map[string]string{"AccountingStorageType": "accounting_storage/slurmdbd", "ClusterName": "here"}
	var r Report
	c.reportUser(t.Context(), &r, config)
	want := []Finding{
		{About: "your accounts", Level: OK, Found: "physics, math"},
		{About: "your jobs in the queue", Level: OK, Found: "at most 25, each array task counts", From: ": MaxSubmitJobs = 40 of account physics, MaxSubmitJobsPerUser = 25 of QOS long", Set: "max_submit: 25"},
		{About: "your running jobs", Level: OK, Found: "at most 4, each array task counts", From: "; sacctmgr list qos name=gpuqos,long: MaxJobs = 12 of account physics, MaxJobsPerUser = 16 of QOS long, MaxJobsPerUser = 4 of QOS gpuqos", Set: "throttle: 4"},
	}
	if len(r.Findings) != len(want) {
		t.Fatalf("%+v", r)
	}
	for i, f := range r.Findings {
		if !strings.HasSuffix(f.From, want[i].From) {
			t.Errorf("from %q", f.From)
		}
		want[i].From = f.From
		if f != want[i] {
			t.Errorf("%+v, want %+v", f, want[i])
		}
	}
	c.Site.QOS = "secret" // sacctmgr does not say it
	r = Report{}
	if c.reportUser(t.Context(), &r, config); r.Findings[1].About != "your QOS" || r.Findings[1].Level != Unknown || r.Findings[2].Set != "max_submit: 40" {
		t.Errorf("%+v", r)
	}
}
