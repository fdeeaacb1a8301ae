package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// versions is an EC2 that has versions of launch templates.
type versions struct {
	EC2
	all []ec2types.LaunchTemplateVersion
}

func (v versions) DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput,
	...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	return &ec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: v.all}, nil
}

// Whoever may write launch templates, but not pass the node role, must not choose what EKS launches in that role.
func TestOnlyVersionsOfEKSAreLaunched(t *testing.T) {
	t.Parallel()
	const eks = "arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAmazonEKSNodegroup/EKS"
	for creator, want := range map[string]string{
		eks: "7",
		"arn:aws:sts::444455556666:assumed-role/AWSServiceRoleForAmazonEKSNodegroup/EKS":     "3",
		"arn:aws:iam::111122223333:user/AWSServiceRoleForAmazonEKSNodegroup":                 "3",
		"arn:aws:iam::111122223333:root":                                                     "3",
		"arn:aws:sts::111122223333:assumed-role/dev/AWSServiceRoleForAmazonEKSNodegroup/EKS": "3",
		"arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAmazonEKSNodegroups/EKS":    "3",
		"": "3",
	} {
		version := func(number int64, description, creator string) ec2types.LaunchTemplateVersion {
			return ec2types.LaunchTemplateVersion{
				VersionNumber: &number, VersionDescription: &description, CreatedBy: &creator,
			}
		}
		g := &group{row: record.Nodegroup{Account: "111122223333"}, ec2: versions{all: []ec2types.LaunchTemplateVersion{
			version(1, "initial", eks), version(3, "eks:wanted", eks), version(7, "eks:wanted", creator),
			version(9, "eks:other", eks),
		}}}
		if got, err := g.findVersion(t.Context(), "lt-1", "eks:wanted"); err != nil || got != want {
			t.Errorf("with a version of %s version %s is launched, want %s: %v", creator, got, want, err)
		}
	}
}

// pagedVersions is an EC2 with a version on each page, the newest first.
type pagedVersions struct {
	EC2
	of    func(number int64) ec2types.LaunchTemplateVersion
	asked *int
}

func (v pagedVersions) DescribeLaunchTemplateVersions(_ context.Context, in *ec2.DescribeLaunchTemplateVersionsInput,
	_ ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	*v.asked++
	if aws.ToInt32(in.MaxResults) != versionsPage {
		return nil, errors.New("all versions are asked for at once")
	}
	number := int64(9)
	if in.NextToken != nil {
		number, _ = strconv.ParseInt(*in.NextToken, 10, 64)
	}
	out := &ec2.DescribeLaunchTemplateVersionsOutput{
		LaunchTemplateVersions: []ec2types.LaunchTemplateVersion{v.of(number)},
	}
	if number > 1 {
		out.NextToken = aws.String(strconv.FormatInt(number-1, 10))
	}
	return out, nil
}

// Users may add thousands of versions to the template: they are not all in memory at once, nor read beyond the one that
// is looked for.
func TestVersionsAreReadInPages(t *testing.T) {
	t.Parallel()
	asked := 0
	creator := "arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAmazonEKSNodegroup/EKS"
	g := &group{row: record.Nodegroup{Account: "111122223333"}, ec2: pagedVersions{asked: &asked,
		of: func(number int64) ec2types.LaunchTemplateVersion {
			return ec2types.LaunchTemplateVersion{VersionNumber: &number, CreatedBy: &creator,
				VersionDescription: aws.String(fmt.Sprintf("eks:%d", number/2))}
		}}}
	for description, want := range map[string]struct {
		version string
		asked   int
	}{"eks:3": {"7", 3}, "eks:none": {"", 9}} {
		asked = 0
		if got, err := g.findVersion(t.Context(), "lt-1", description); err != nil || got != want.version ||
			asked != want.asked {
			t.Errorf("%s: version %q after %d pages, want %q after %d: %v", description, got, asked, want.version,
				want.asked, err)
		}
	}
}
