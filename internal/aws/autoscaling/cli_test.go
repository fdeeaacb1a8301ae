package autoscaling_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// The unmodified aws CLI makes a group, looks at it and deletes it.
func TestCLI(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	binary, err := exec.LookPath("aws")
	if err != nil {
		t.Fatal("the aws CLI is not installed: make setup installs it")
	}
	w := newFixture(t)
	home := t.TempDir()
	run := func(into any, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"--endpoint-url", w.url, "autoscaling"},
			args...)...)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region,
			"AWS_ACCESS_KEY_ID=AKIAROOT", "AWS_SECRET_ACCESS_KEY=secret",
			"AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "AWS_DEFAULT_OUTPUT=json",
			"PYENV_ROOT=" + os.Getenv("PYENV_ROOT"),
		}
		out, err := cmd.CombinedOutput()
		if err == nil && into != nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			t.Fatalf("aws autoscaling %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(nil, "create-auto-scaling-group", "--auto-scaling-group-name", "nodes", "--min-size", "0", "--max-size", "3",
		"--desired-capacity", "2",
		"--launch-template", "LaunchTemplateName=nodes,Version=$Latest", "--vpc-zone-identifier", w.subnets[0]+","+
			w.subnets[1], "--tags", "Key=team,Value=a,PropagateAtLaunch=true")
	w.serves("nodes", 2)
	var groups struct {
		AutoScalingGroups []struct {
			Instances []struct{ InstanceId, LifecycleState string }
			Tags      []struct{ Key, Value string }
		}
	}
	run(&groups, "describe-auto-scaling-groups", "--auto-scaling-group-names", "nodes")
	if g := groups.AutoScalingGroups; len(g) != 1 || len(g[0].Instances) != 2 ||
		g[0].Instances[0].LifecycleState != "InService" || g[0].Tags[0].Value != "a" {
		t.Errorf("%+v", g)
	}
	var activities struct {
		Activities []struct{ StatusCode, Cause string }
	}
	run(&activities, "describe-scaling-activities", "--auto-scaling-group-name", "nodes")
	if a := activities.Activities; len(a) != 2 || a[0].StatusCode != "Successful" {
		t.Errorf("%+v", a)
	}
	run(nil, "update-auto-scaling-group", "--auto-scaling-group-name", "nodes", "--desired-capacity", "0")
	w.serves("nodes", 0)
	run(nil, "delete-auto-scaling-group", "--auto-scaling-group-name", "nodes")
	w.eventually("the group is gone", func() bool { return w.group("nodes").AutoScalingGroupName == nil })
}
