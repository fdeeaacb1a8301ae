package vpc_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
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
