package resource

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestPage asks how many items are on a page: test/operations has the sizes that are refused.
func TestPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		query Query
		want  int32 // 0: all
	}{
		{"all", Query{Operation: "DescribeVpcs"}, 0},
		{"a size", Query{Operation: "DescribeVpcs", Max: aws.Int32(5)}, 5},
		{"the default of instance types", Query{Operation: "DescribeInstanceTypes"}, 100},
		{"named instance types", Query{Operation: "DescribeInstanceTypes", IDs: []string{"m5.large"}}, 0},
		{"the default of spot prices", Query{Operation: "DescribeSpotPriceHistory"}, 1000},
		{"what Karpenter asks for", Query{Operation: "DescribeSpotPriceHistory", Max: aws.Int32(2000)}, 2000},
		{"the default of snapshots", Query{Operation: "DescribeSnapshots"}, 1000},
		{"more instances than fit", Query{Operation: "DescribeInstances", Max: aws.Int32(5000)}, 1000},
		{"more volumes than fit", Query{Operation: "DescribeVolumes", Max: aws.Int32(501)}, 500},
		{"more modifications than fit", Query{Operation: "DescribeVolumesModifications", Max: aws.Int32(1000)}, 500},
		{"more endpoints than fit", Query{Operation: "DescribeVpcEndpoints", Max: aws.Int32(1001)}, 1000},
		{"a dry run", Query{Operation: "DescribeVpcs", Max: aws.Int32(1), DryRun: aws.Bool(true)}, 0},
		{"no operation", Query{IDs: []string{"vpc-1"}}, 0},
	} {
		got, err := c.query.Page()
		if err != nil || aws.ToInt32(got) != c.want {
			t.Errorf("%s: %v, %v, want %d", c.name, aws.ToInt32(got), err, c.want)
		}
	}
	for name, r := range pageRules {
		if r.capped && r.max == 0 || r.size > 0 && r.max > 0 && r.size > r.max {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
