package ec2_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// providers is the directory where Terraform's AWS provider may be installed on hosts that reach no registry.
const providers = "/opt/tf-plugins"

// Terraform makes what its AWS provider has around instances, finds nothing to change, changes it, and takes it away.
func TestTerraform(t *testing.T) {
	t.Parallel()
	if os.Getenv("CORACLE_TEST_TERRAFORM") == "" {
		t.Skip("takes minutes: set CORACLE_TEST_TERRAFORM=1 to run it")
	}
	binary, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("terraform is not installed")
	}
	if _, err := os.Stat(providers); err != nil {
		t.Skip("Terraform's AWS provider is not in " + providers)
	}
	w := ec2test.New(t)
	startHardware(w)
	createInstanceProfile(w, "nodes", "node-role")
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("terraformrc", "provider_installation {\n filesystem_mirror {\n path = \""+providers+"\"\n }\n}\n")
	const configuration = `
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
provider "aws" {
  region = "eu-west-1"
  access_key = "AKIAROOT"
  secret_key = "secret"
  skip_credentials_validation = true
  skip_requesting_account_id = true
  skip_metadata_api_check = true
  max_retries = 1
  endpoints {
    ec2 = "URL"
  }
}
data "aws_ami" "eks" {
  owners = ["602401143452"]
  most_recent = true
  filter {
    name = "name"
    values = ["amazon-eks-node-al2023-x86_64-standard-1.35-v*"]
  }
}
data "aws_ec2_instance_type" "large" { instance_type = "m5.large" }
data "aws_ec2_instance_type_offerings" "zones" {
  location_type = "availability-zone"
  filter {
    name = "instance-type"
    values = ["m5.large"]
  }
}
resource "aws_vpc" "main" {
  cidr_block = "10.0.0.0/16"
  enable_dns_hostnames = true
}
resource "aws_subnet" "a" {
  vpc_id = aws_vpc.main.id
  cidr_block = "10.0.0.0/24"
  availability_zone = "eu-west-1a"
  map_public_ip_on_launch = true
}
resource "aws_security_group" "nodes" { vpc_id = aws_vpc.main.id }
resource "aws_placement_group" "rack" {
  name = "rack"
  strategy = "cluster"
}
resource "aws_launch_template" "nodes" {
  name_prefix = "nodes-"
  image_id = data.aws_ami.eks.id
  instance_type = "TYPE"
  update_default_version = true
  user_data = base64encode("#!/bin/bash\n/etc/eks/bootstrap.sh ironman\n")
  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size = 50
      volume_type = "gp3"
      delete_on_termination = true
    }
  }
  metadata_options {
    http_tokens = "required"
    http_put_response_hop_limit = 2
  }
  network_interfaces {
    device_index = 0
    subnet_id = aws_subnet.a.id
    security_groups = [aws_security_group.nodes.id]
    associate_public_ip_address = "true"
  }
  tag_specifications {
    resource_type = "instance"
    tags = { team = "a" }
  }
}
resource "aws_instance" "plain" {
  ami = data.aws_ami.eks.id
  instance_type = "TYPE"
  subnet_id = aws_subnet.a.id
  vpc_security_group_ids = [aws_security_group.nodes.id]
  iam_instance_profile = "nodes"
  placement_group = aws_placement_group.rack.name
  user_data = "#!/bin/sh\ndate\n"
  tags = { Name = "plain" }
  root_block_device {
    volume_size = 30
    volume_type = "gp3"
    tags = { disk = "root" }
  }
  metadata_options { http_tokens = "required" }
}
resource "aws_instance" "templated" {
  launch_template {
    id = aws_launch_template.nodes.id
    version = "$Latest"
  }
  lifecycle { ignore_changes = [tags, user_data] } # the template's, in which the provider sees changes on AWS as well
}
resource "aws_network_interface" "second" {
  subnet_id = aws_subnet.a.id
  attachment {
    instance = aws_instance.plain.id
    device_index = 1
  }
}
resource "aws_eip" "plain" {}
resource "aws_eip_association" "plain" {
  allocation_id = aws_eip.plain.id
  network_interface_id = aws_instance.plain.primary_network_interface_id
  depends_on = [aws_internet_gateway.main, aws_network_interface.second]
}
resource "aws_internet_gateway" "main" { vpc_id = aws_vpc.main.id }
resource "aws_spot_instance_request" "cheap" {
  ami = data.aws_ami.eks.id
  instance_type = "m5.large"
  subnet_id = aws_subnet.a.id
  spot_type = "one-time"
  wait_for_fulfillment = true
}
output "vcpus" { value = data.aws_ec2_instance_type.large.default_vcpus }
output "zones" { value = length(data.aws_ec2_instance_type_offerings.zones.locations) }
`
	config := func(kind string) {
		write("main.tf", strings.NewReplacer("URL", w.URL, "TYPE", kind).Replace(configuration))
	}
	run := func(args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append(args, "-no-color")...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_CLI_CONFIG_FILE=" +
			filepath.Join(dir, "terraformrc"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
			"AWS_EC2_METADATA_DISABLED=true"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must1 := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	config("m5.large")
	must1("init", "-input=false")
	out := must1("apply", "-auto-approve", "-input=false")
	if !strings.Contains(out, "vcpus = 2") || !strings.Contains(out, "zones = 3") {
		t.Errorf("outputs:\n%s", out)
	}
	if out, err := run("plan", "-detailed-exitcode", "-input=false"); err != nil {
		t.Errorf("a second plan finds something to change: %v\n%s", err, out)
	}
	config("m5.xlarge") // stops the instance, changes its type and starts it again
	must1("apply", "-auto-approve", "-input=false")
	for _, r := range awstest.Must[*ec2.DescribeInstancesOutput](t)(w.DescribeInstances(w.Context(),
		&ec2.DescribeInstancesInput{Filters: []types.Filter{ec2test.Filter("tag:Name", "plain"),
			ec2test.Filter("instance-state-name", "running")}})).Reservations {
		if r.Instances[0].InstanceType != "m5.xlarge" || len(r.Instances[0].NetworkInterfaces) != 2 {
			t.Errorf("changed to %+v", r.Instances[0])
		}
	}
	must1("destroy", "-auto-approve", "-input=false")
}
