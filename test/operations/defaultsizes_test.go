package operations_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// TestDefaultSizes asks for lists of what AWS has, which are longer than a page, without a size and with a large one.
func TestDefaultSizes(t *testing.T) {
	t.Parallel()
	f := newPageFixture(t)
	ctx := t.Context()
	root := credentials.StaticCredentialsProvider{Value: f.Root}
	machines := ec2.New(ec2.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, HTTPClient: awsclient.HTTP(),
		Credentials: root})
	parameters := ssm.New(ssm.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, HTTPClient: awsclient.HTTP(),
		Credentials: root})
	for _, c := range []struct {
		name string
		call func() (int, *string, error)
		want int // items, before a token
	}{
		{"instance types", func() (int, *string, error) {
			out, err := machines.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{})
			return len(out.InstanceTypes), out.NextToken, err
		}, 100},
		{"spot prices", func() (int, *string, error) {
			out, err := machines.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{})
			return len(out.SpotPriceHistory), out.NextToken, err
		}, 1000},
		{"spot prices as Karpenter asks for them", func() (int, *string, error) {
			out, err := machines.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
				MaxResults: aws.Int32(2000), ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}})
			return len(out.SpotPriceHistory), out.NextToken, err
		}, 2000},
		{"parameters by path", func() (int, *string, error) {
			out, err := parameters.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{
				Path: aws.String("/aws/service/eks/optimized-ami"), Recursive: aws.Bool(true)})
			return len(out.Parameters), out.NextToken, err
		}, 10},
	} {
		switch got, token, err := c.call(); {
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case got != c.want || aws.ToString(token) == "":
			t.Errorf("%s: %d, and the token %q; want %d and another page", c.name, got, aws.ToString(token), c.want)
		}
	}
}
