package ec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI launches an instance from a template, waits for it, looks at it and takes it away.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	startHardware(w)
	cli := awsclient.NewCLI(t, w.URL, ec2test.Region, "ec2")
	must := func(args ...string) string { t.Helper(); return cli.Run(nil, args...) }
	bootstrap := filepath.Join(cli.Home, "bootstrap.sh")
	if err := os.WriteFile(bootstrap, []byte("#!/bin/bash\n/etc/eks/bootstrap.sh ironman\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ami := must("describe-images", "--owners", "602401143452", "--filters",
		"Name=name,Values=amazon-eks-node-al2023-x86_64-standard-1.35-*", "--query",
		"sort_by(Images,&CreationDate)[-1].ImageId", "--output", "text")
	must("create-launch-template", "--launch-template-name", "nodes", "--launch-template-data", `{"ImageId":"`+ami+
		`","InstanceType":"m5.large","TagSpecifications":[{"ResourceType":"instance","Tags":[{"Key":"Name","Value":"node"}]}]}`)
	id := must("run-instances", "--launch-template", "LaunchTemplateName=nodes,Version=$Latest", "--user-data",
		"file://"+bootstrap, "--tag-specifications", "ResourceType=instance,Tags=[{Key=team,Value=a}]",
		"--metadata-options", "HttpTokens=required,HttpPutResponseHopLimit=2", "--query", "Instances[0].InstanceId",
		"--output", "text")
	must("wait", "instance-status-ok", "--instance-ids", id)
	shown := must(
		"describe-instances",
		"--filters",
		"Name=tag:team,Values=a",
		"Name=instance-state-name,Values=running",
		"--query",
		"Reservations[].Instances[].[InstanceId,InstanceType,State.Name,Tags[?Key=='Name']|[0].Value,Placement.AvailabilityZone]",
		"--output",
		"text",
	)
	if want := id + "\tm5.large\trunning\tnode\teu-west-1a"; shown != want {
		t.Errorf("the instance is shown as %q, want %q", shown, want)
	}
	if data := must("describe-instance-attribute", "--instance-id", id, "--attribute", "userData", "--query",
		"UserData.Value", "--output", "text"); !strings.HasPrefix(data, "IyEvYmluL2Jhc2gK") {
		t.Errorf("user data %s", data)
	}
	cli.Refused("InvalidParameterValue", "RunInstances operation: The architecture 'arm64'", "run-instances",
		"--image-id", ami, "--instance-type", "m6g.large")
	must("terminate-instances", "--instance-ids", id)
	must("wait", "instance-terminated", "--instance-ids", id)
}
