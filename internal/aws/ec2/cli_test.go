package ec2_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The unmodified aws CLI launches an instance from a template, waits for it, looks at it and takes it away.
func TestCLI(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the aws CLI many times")
	}
	binary, err := exec.LookPath("aws")
	if err != nil {
		t.Fatal("the aws CLI is not installed: make setup installs it")
	}
	w := newWorld(t)
	w.hardware()
	home := t.TempDir()
	run := func(args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"ec2"}, args...)...)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "AWS_ENDPOINT_URL=" + w.url, "AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region, "AWS_ACCESS_KEY_ID=AKIAROOT", "AWS_SECRET_ACCESS_KEY=secret",
			"AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=",
		}
		// A version manager's shim finds its versions below the real home.
		for _, keep := range []string{"PYENV_ROOT", "PYENV_VERSION"} {
			if v := os.Getenv(keep); v != "" {
				cmd.Env = append(cmd.Env, keep+"="+v)
			}
		}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("aws ec2 %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	bootstrap := filepath.Join(home, "bootstrap.sh")
	if err := os.WriteFile(bootstrap, []byte("#!/bin/bash\n/etc/eks/bootstrap.sh ironman\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ami := must("describe-images", "--owners", "602401143452", "--filters", "Name=name,Values=amazon-eks-node-al2023-x86_64-standard-1.35-*", "--query", "sort_by(Images,&CreationDate)[-1].ImageId", "--output", "text")
	must("create-launch-template", "--launch-template-name", "nodes", "--launch-template-data", `{"ImageId":"`+ami+`","InstanceType":"m5.large","TagSpecifications":[{"ResourceType":"instance","Tags":[{"Key":"Name","Value":"node"}]}]}`)
	id := must("run-instances", "--launch-template", "LaunchTemplateName=nodes,Version=$Latest", "--user-data", "file://"+bootstrap, "--tag-specifications", "ResourceType=instance,Tags=[{Key=team,Value=a}]",
		"--metadata-options", "HttpTokens=required,HttpPutResponseHopLimit=2", "--query", "Instances[0].InstanceId", "--output", "text")
	must("wait", "instance-status-ok", "--instance-ids", id)
	shown := must("describe-instances", "--filters", "Name=tag:team,Values=a", "Name=instance-state-name,Values=running",
		"--query", "Reservations[].Instances[].[InstanceId,InstanceType,State.Name,Tags[?Key=='Name']|[0].Value,Placement.AvailabilityZone]", "--output", "text")
	if want := id + "\tm5.large\trunning\tnode\teu-west-1a"; shown != want {
		t.Errorf("the instance is shown as %q, want %q", shown, want)
	}
	if data := must("describe-instance-attribute", "--instance-id", id, "--attribute", "userData", "--query", "UserData.Value", "--output", "text"); !strings.HasPrefix(data, "IyEvYmluL2Jhc2gK") {
		t.Errorf("user data %s", data)
	}
	if out, err := run("run-instances", "--image-id", ami, "--instance-type", "m6g.large"); err == nil || !strings.Contains(out, "An error occurred (InvalidParameterValue) when calling the RunInstances operation: The architecture 'arm64'") {
		t.Errorf("an image of another architecture: %v\n%s", err, out)
	}
	must("terminate-instances", "--instance-ids", id)
	must("wait", "instance-terminated", "--instance-ids", id)
}
