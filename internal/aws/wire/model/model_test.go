package model

import (
	"testing"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"
)

func TestQueryServiceSchema(t *testing.T) {
	op, ok := Load("ec2").Operation("DescribeVpcs")
	if !ok {
		t.Fatal("ec2 has no DescribeVpcs")
	}
	vpcs := op.Output.Member("Vpcs")
	if n, _ := smithy.SchemaTrait[*traits.XMLName](vpcs); n == nil || n.Name != "vpcSet" {
		t.Errorf("Vpcs is called %v in XML, want vpcSet", n)
	}
	if n, _ := smithy.SchemaTrait[*traits.XMLName](vpcs.ListMember()); n == nil || n.Name != "item" {
		t.Errorf("the elements of vpcSet are called %v, want item", n)
	}
	if n, _ := smithy.SchemaTrait[*traits.EC2QueryName](op.Input.Member("Filters")); n == nil || n.Name != "Filter" {
		t.Errorf("Filters is called %v in a request, want Filter", n)
	}
	if _, ok := Load("ec2").Operation("DescribeUnicorns"); ok {
		t.Error("ec2 has DescribeUnicorns")
	}
}

func TestShippedSchema(t *testing.T) {
	op, _ := Load("eks").Operation("DescribeCluster")
	if h, _ := smithy.SchemaTrait[*traits.HTTP](op.Schema); h == nil || h.URI != "/clusters/{name}" {
		t.Errorf("DescribeCluster is at %v", h)
	}
}

func TestConstraints(t *testing.T) {
	c := Load("iam").Constraints("CreateRoleInput")["RoleName"]
	if !c.Required || *c.Min != 1 || *c.Max != 64 || !c.Pattern.MatchString("a+b") || c.Pattern.MatchString("a b") {
		t.Errorf("RoleName: %+v", c)
	}
	if c := Load("eks").Constraints("CreateClusterInput")["Name"]; !c.Required || c.Pattern.MatchString("a/b") {
		t.Errorf("cluster name: %+v", c)
	}
}

func TestErrors(t *testing.T) {
	e, ok := Load("iam").Error("NoSuchEntityException")
	if !ok || e.Code != "NoSuchEntity" || e.Status != 404 || e.Schema.Member("Message") == nil {
		t.Errorf("NoSuchEntityException: %+v", e)
	}
	if got := Load("eks").Status("ResourceInUseException"); got != 409 {
		t.Errorf("ResourceInUseException has status %d, want 409", got)
	}
}

// Everything in the data can be built: no dangling name, no unreadable type or pattern.
func TestWholeModels(t *testing.T) {
	for _, name := range []string{"autoscaling", "cloudformation", "cloudwatchlogs", "ec2", "ecr", "eks",
		"elasticloadbalancing", "elasticloadbalancingv2", "iam", "kms", "sqs", "ssm", "sts"} {
		s := Load(name)
		for _, op := range s.Operations() {
			s.Operation(op)
		}
		for _, e := range s.Errors() {
			if e, _ := s.Error(e); e.Schema == nil {
				t.Errorf("%s: %s has no schema", name, e.GoType)
			}
		}
		for block := range s.blocks {
			s.Constraints(block)
		}
	}
}

func BenchmarkLoadEC2(b *testing.B) {
	for b.Loop() {
		delete(loaded, "ec2")
		Load("ec2").Operation("RunInstances")
	}
}
