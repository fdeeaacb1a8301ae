package vpc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestPoliciesOfEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	create := func(policy string) (*ec2.CreateVpcEndpointOutput, error) {
		return w.CreateVpcEndpoint(t.Context(), &ec2.CreateVpcEndpointInput{VpcId: &vpc, PolicyDocument: &policy,
			ServiceName: aws.String("com.amazonaws." + ec2test.Region + ".s3")})
	}
	largest, larger := `"`+strings.Repeat("é", 20478)+`"`, `"`+strings.Repeat("é", 20479)+`"`
	endpoint, err := create(largest)
	if err != nil {
		t.Fatalf("the largest policy: %v", err)
	}
	for policy, code := range map[string]string{larger: "InvalidParameterValue", "{": "MalformedPolicyDocument"} {
		if _, err := create(policy); awstest.Code(err) != code {
			t.Errorf("create with a policy of %d bytes: %v, want %s", len(policy), err, code)
		}
		if _, err := w.ModifyVpcEndpoint(t.Context(), &ec2.ModifyVpcEndpointInput{
			VpcEndpointId: endpoint.VpcEndpoint.VpcEndpointId, PolicyDocument: &policy}); awstest.Code(err) != code {
			t.Errorf("modify with a policy of %d bytes: %v, want %s", len(policy), err, code)
		}
	}
}

// TestEndpointsAreBounded fills a region with gateway endpoints, and a VPC with interface endpoints.
func TestEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc, other := w.VPC("10.0.0.0/16"), w.VPC("10.1.0.0/16")
	fill := func(kind types.VpcEndpointType, service string, many int) {
		t.Helper()
		var ops []store.Op
		for i := range many {
			e := record.VPCEndpoint{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
				ID: fmt.Sprintf("vpce-%s%d", service, i)}, VPCID: vpc, Type: kind,
				ServiceName: "com.amazonaws." + ec2test.Region + "." + service}
			ops = append(ops, record.VPCEndpoints(w.Store).CreateOp(e.Key(), e))
		}
		if err := w.Store.Txn(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	create := func(vpc, service string, kind types.VpcEndpointType) error {
		_, err := w.CreateVpcEndpoint(t.Context(), &ec2.CreateVpcEndpointInput{VpcId: &vpc, VpcEndpointType: kind,
			ServiceName: aws.String("com.amazonaws." + ec2test.Region + "." + service)})
		return err
	}
	fill(types.VpcEndpointTypeGateway, "s3", resource.MaxGatewayEndpoints-1)
	fill(types.VpcEndpointTypeInterface, "sts", resource.MaxInterfaceEndpointsPerVPC-1)
	for _, test := range []struct {
		name, vpc, service string
		kind               types.VpcEndpointType
		code               string
	}{
		{"the last gateway endpoint", other, "s3", types.VpcEndpointTypeGateway, ""},
		{"one more", vpc, "s3", types.VpcEndpointTypeGateway, "VpcEndpointLimitExceeded"},
		{"one more of another VPC and service", other, "dynamodb", "", "VpcEndpointLimitExceeded"},
		{"the last interface endpoint", vpc, "sts", types.VpcEndpointTypeInterface, ""},
		{"one more of the VPC", vpc, "ec2", types.VpcEndpointTypeInterface, "VpcEndpointLimitExceeded"},
		{"one of another VPC", other, "ec2", types.VpcEndpointTypeInterface, ""},
	} {
		err := create(test.vpc, test.service, test.kind)
		if (err == nil) != (test.code == "") || err != nil && awstest.Code(err) != test.code {
			t.Errorf("%s: %v, want %q", test.name, err, test.code)
		}
	}
}

// TestPoliciesOfEndpoints follows the policy of an endpoint, which is a record of its own.
func TestPoliciesOfEndpoints(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	const open = `"Action":"*"`
	out := awstest.Must[*ec2.CreateVpcEndpointOutput](t)(w.CreateVpcEndpoint(t.Context(), &ec2.CreateVpcEndpointInput{
		VpcId: &vpc, PolicyDocument: aws.String(`"first"`),
		ServiceName: aws.String("com.amazonaws." + ec2test.Region + ".s3")}))
	id := *out.VpcEndpoint.VpcEndpointId
	key := record.EC2Key(ec2test.Account, ec2test.Region, id)
	is := func(when, want string) {
		t.Helper()
		found := awstest.Must[*ec2.DescribeVpcEndpointsOutput](t)(w.DescribeVpcEndpoints(t.Context(),
			&ec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{id}})).VpcEndpoints
		if got := aws.ToString(found[0].PolicyDocument); !strings.Contains(got, want) {
			t.Errorf("%s it is %s, want %s", when, got, want)
		}
		row, err := record.VPCEndpoints(w.Store).Get(t.Context(), key)
		if err != nil || row.Value.InlinePolicy != "" && row.Value.InlinePolicy != `"old"` {
			t.Errorf("%s the record of the endpoint has the policy %s, %v", when, row.Value.InlinePolicy, err)
		}
	}
	modify := func(in ec2.ModifyVpcEndpointInput) {
		t.Helper()
		in.VpcEndpointId = &id
		awstest.Must[*ec2.ModifyVpcEndpointOutput](t)(w.ModifyVpcEndpoint(t.Context(), &in))
	}
	old := func() {
		t.Helper()
		if _, err := record.VPCEndpoints(w.Store).Modify(t.Context(), key, func(e *record.VPCEndpoint) error {
			e.InlinePolicy = `"old"`
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := aws.ToString(out.VpcEndpoint.PolicyDocument); got != `"first"` {
		t.Errorf("it is created with %s", got)
	}
	is("created", `"first"`)
	modify(ec2.ModifyVpcEndpointInput{PolicyDocument: aws.String(`"second"`)})
	is("modified", `"second"`)
	modify(ec2.ModifyVpcEndpointInput{ResetPolicy: aws.Bool(true)})
	is("reset", open)
	old()
	is("from an earlier version", `"old"`)
	modify(ec2.ModifyVpcEndpointInput{PolicyDocument: aws.String(`"third"`)})
	is("modified after an earlier version", `"third"`)
	awstest.Must[*ec2.DeleteVpcEndpointsOutput](t)(w.DeleteVpcEndpoints(t.Context(), &ec2.DeleteVpcEndpointsInput{
		VpcEndpointIds: []string{id}}))
	if _, err := record.VPCEndpointPolicies(w.Store).Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a deleted endpoint: %v", err)
	}
}
